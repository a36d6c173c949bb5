package sqlite

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed clear.sql
	clearSQL string
)

const schemaVersion = 1

// initialize makes the tables where they are missing and sees to it that the
// expiries in the file are on this process's clock.
func (c *conn) initialize(ctx context.Context, cs *census) error {
	mode := ""
	err := c.retry(ctx, func() error {
		s, _, err := c.db.Prepare("PRAGMA journal_mode = WAL")
		if err != nil {
			return err
		}
		defer s.Close()
		if s.Step() {
			mode = s.ColumnText(0)
		}
		return s.Err()
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("sqlite: the file's journal mode is %s and cannot be set to wal", mode)
	}
	if err := c.db.Exec("PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY"); err != nil {
		return err
	}
	// A file that cannot be written is found now, and not by the first lock.
	if err := c.retry(ctx, func() error { return c.exec(&c.begin, beginText) }); err != nil {
		return err
	}
	made, err := c.adopt(cs)
	if err != nil {
		return driver.Join(err, c.exec(&c.rollback, rollbackText))
	}
	if err := c.exec(&c.commit, commitText); err != nil || !made {
		return err
	}
	// The file itself gets its pages now: on a disk that is full later, the log
	// can then be carried over and used again.
	_ = c.checkpoint()
	return nil
}

// schemaVersion reads the version of the tables; 0: there are none.
func (c *conn) schemaVersion() (version int64, err error) {
	found := false
	if err := c.each("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pawl_meta'", func(*sqlite3.Stmt) { found = true }); err != nil || !found {
		return 0, err
	}
	err = c.each("SELECT schema FROM pawl_meta WHERE one = 1", func(s *sqlite3.Stmt) { version = s.ColumnInt64(0) })
	return version, err
}

func versionError(version int64) error {
	return fmt.Errorf("sqlite: the file's tables are of version %d, this program knows version %d: use the program that made them, or a newer one", version, schemaVersion)
}

// each runs a statement once and shows its rows.
func (c *conn) each(text string, row func(*sqlite3.Stmt)) error {
	s, _, err := c.db.Prepare(text)
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Step() {
		row(s)
	}
	return s.Err()
}

// adopt runs inside the opening transaction. It makes the tables, and puts the
// file on this process's clock.
func (c *conn) adopt(cs *census) (made bool, err error) {
	version, err := c.schemaVersion()
	switch {
	case err != nil:
		return false, err
	case version != 0 && version != schemaVersion: // told before a statement meets tables it does not know
		return false, versionError(version)
	case version == 0:
		if err := c.db.Exec(schemaSQL); err != nil {
			return false, err
		}
	}
	t, err := c.judge(cs)
	switch {
	case err != nil:
		return false, err
	case t == ended:
		err = c.db.Exec(clearSQL)
	}
	if err == nil && t != ours {
		err = c.sign(c.clock.boot(), c.clock.space())
	}
	return version == 0, err
}

// sign writes down whose clock the file is on.
func (c *conn) sign(boot, space string) error {
	set, _, err := c.db.Prepare("UPDATE pawl_meta SET boot = ?1, space = ?2 WHERE one = 1")
	if err != nil {
		return err
	}
	defer set.Close()
	return driver.Join(set.BindText(1, boot), set.BindText(2, space), set.Exec())
}
