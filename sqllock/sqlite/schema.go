package sqlite

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed clear.sql
	clearSQL string
)

// initialize makes the tables where they are missing and makes sure that the expiries in
// the file are on this process's clock.
func (c *conn) initialize(ctx context.Context, l *liveness) error {
	mode := ""
	err := c.retry(ctx, func() error {
		return c.query("PRAGMA journal_mode = WAL", func(s *sqlite3.Stmt) { mode = s.ColumnText(0) })
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("sqlite: the file's journal mode is %s and cannot be set to wal", mode)
	}
	if err := c.db.Exec("PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 4194304"); err != nil {
		return err
	}
	// It takes the write lock only where that is needed, and looks again before each
	// attempt: of many processes that open a new file together one makes the tables, and
	// the others need not wait for their turns to find them.
	as := false
	err = c.retry(ctx, func() (err error) {
		if as, err = c.isAsNeeded(); err != nil || as {
			return err
		}
		return c.exec(begin) // also, so that a file that cannot be written is reported now, and not by the first lock
	})
	if err != nil || as {
		return err
	}
	made, err := c.adopt(l)
	if err != nil {
		return driver.Join(err, c.exec(rollback))
	}
	if err := c.exec(commit); err != nil || !made {
		return err
	}
	// The file itself gets its pages now: if the disk is full later, the log can still be
	// checkpointed and reused.
	_ = c.checkpoint()
	return nil
}

// isAsNeeded reports whether the file can be written, has the tables and is on this
// process's clock. Mostly it is, and then nobody has to wait for the file to open it.
func (c *conn) isAsNeeded() (bool, error) {
	if readOnly, _ := c.db.ReadOnly("main"); readOnly { // whether "main" is known, the library says the wrong way round
		return false, nil
	}
	version, err := c.readVersion()
	if err != nil || version != sqlitefile.Version {
		return false, err
	}
	boot, namespace, err := c.readClock()
	return err == nil && boot == c.clock.boot && namespace == c.clock.namespace, err
}

// adopt makes the tables and puts the file on this process's clock. It runs inside a
// transaction.
func (c *conn) adopt(l *liveness) (made bool, err error) {
	version, err := c.readVersion()
	switch {
	case err != nil:
		return false, err
	case version != 0 && version != sqlitefile.Version: // before a statement fails on unknown tables
		return false, sqlitefile.VersionError(version)
	case version == 0:
		if err := c.db.Exec(schemaSQL); err != nil {
			return false, err
		}
	}
	match, err := c.compareClock(l)
	switch {
	case err != nil:
		return false, err
	case match == goneClock:
		err = c.db.Exec(clearSQL)
	}
	if err == nil && match != sameName {
		err = c.query("UPDATE pawl_meta SET boot = ?1, space = ?2 WHERE one = 1", nil, c.clock.boot, c.clock.namespace)
	}
	return version == 0, err
}

// readVersion returns the version of the tables; 0: there are none.
func (c *conn) readVersion() (version int64, err error) {
	found := false
	if err := c.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pawl_meta'", func(*sqlite3.Stmt) { found = true }); err != nil || !found {
		return 0, err
	}
	err = c.query("SELECT schema FROM pawl_meta WHERE one = 1", func(s *sqlite3.Stmt) { version = s.ColumnInt64(0) })
	return version, err
}
