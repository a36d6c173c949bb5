package sqlite

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
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
	if err := c.retry(ctx, func() error { return c.db.Exec("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	if err := c.adopt(cs); err != nil {
		return errors.Join(err, c.db.Exec("ROLLBACK"))
	}
	return c.db.Exec("COMMIT")
}

// adopt runs inside the opening transaction. Another boot means that every
// holder is gone: all is cleared. Another time namespace of the same boot has
// another clock, and its holders may be alive: they are waited for, not judged.
func (c *conn) adopt(cs *census) error {
	if err := c.db.Exec(schemaSQL); err != nil {
		return err
	}
	s, _, err := c.db.Prepare("SELECT schema, boot, space FROM pawl_meta WHERE one = 1")
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.Step() {
		return errors.Join(s.Err(), errors.New("sqlite: table pawl_meta is empty"))
	}
	version, boot, space := s.ColumnInt64(0), s.ColumnText(1), s.ColumnText(2)
	if err := s.Reset(); err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("sqlite: the file's tables are of version %d, this program knows version %d", version, schemaVersion)
	}
	mine, myspace := c.clock.boot(), c.clock.space()
	if boot == mine && space == myspace {
		return nil
	}
	if boot == mine {
		alive, err := cs.strangers()
		if err != nil {
			return err
		}
		if alive {
			return fmt.Errorf("sqlite: the file is in use by a process in another time namespace (%s, this one is %s), "+
				"whose clock differs: run both in the same one, or stop the other first", space, myspace)
		}
	}
	if err := c.db.Exec(clearSQL); err != nil {
		return err
	}
	set, _, err := c.db.Prepare("UPDATE pawl_meta SET boot = ?1, space = ?2 WHERE one = 1")
	if err != nil {
		return err
	}
	defer set.Close()
	return errors.Join(set.BindText(1, mine), set.BindText(2, myspace), set.Exec())
}
