package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// run executes a batch: a statement that is alone, or only reads, by itself, others in a
// transaction.
func (c *conn) run(ctx context.Context, b *sqlstore.Batch) error {
	switch {
	case b.Durable:
		return c.runDurably(ctx, b)
	case len(b.Steps) > 1 && !b.ReadOnly || b.Steps[0].Required:
		return c.runTx(ctx, b)
	}
	if !b.ReadOnly {
		_, err := c.step(&b.Steps[0], c.now())
		if errors.Is(err, sqlite3.BUSY) { // to begin costs less than to try the statement again and again
			err = c.runTx(ctx, b)
		}
		return err
	}
	for i := range b.Steps {
		err := c.retry(ctx, func() error {
			_, err := c.step(&b.Steps[i], c.now())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runDurably runs a batch and syncs the log before it returns, which also writes earlier
// commits to disk.
func (c *conn) runDurably(ctx context.Context, b *sqlstore.Batch) (err error) {
	if err := c.exec("PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	defer func() { err = driver.Join(err, c.exec("PRAGMA synchronous = NORMAL")) }()
	return c.runTx(ctx, b)
}

// runTx runs a batch between BEGIN IMMEDIATE and COMMIT. The statements are prepared
// before: that takes longer than to run them, and nobody else can write meanwhile.
func (c *conn) runTx(ctx context.Context, b *sqlstore.Batch) error {
	for i := range b.Steps {
		if _, err := c.prepare(b.Steps[i].Statement.Name, b.Steps[i].Statement.Text); err != nil {
			return fmt.Errorf("statement %s: %w", b.Steps[i].Statement.Name, err)
		}
	}
	if err := c.retry(ctx, func() error { return c.exec(begin) }); err != nil {
		return err
	}
	at := c.now()
	for i := range b.Steps {
		ok, err := c.step(&b.Steps[i], at)
		if err != nil || !ok {
			b.Aborted = err == nil
			if c.db.GetAutocommit() { // SQLite has rolled back by itself, as when the disk is full
				return err
			}
			return driver.Join(err, c.exec(rollback))
		}
	}
	err := c.exec(commit)
	if err != nil && !c.db.GetAutocommit() { // still open, so it can be rolled back
		return driver.Join(hideBusy(err), c.exec(rollback))
	}
	return err
}

// isDiskFull reports that a write failed, as on a full disk. The log grows to some 4 MB
// before SQLite checkpoints it, for which a small disk may not have the room.
func isDiskFull(err error) bool {
	return errors.Is(err, sqlite3.FULL) || errors.Is(err, sqlite3.IOERR_WRITE)
}

// explainFull adds to the error of a write that failed why nothing can be written beside
// the file, if nothing can: SQLite says only "disk I/O error" where the disk is full or a
// quota is used up.
func explainFull(err error, path string) error {
	if !isDiskFull(err) && !errors.Is(err, sqlite3.IOERR) {
		return err
	}
	probe, reason := os.CreateTemp(filepath.Dir(path), ".pawl-")
	if reason == nil {
		_, reason = probe.Write(make([]byte, 64<<10))
		_ = probe.Close() // what counts is the write
		os.Remove(probe.Name())
	}
	if reason == nil {
		return err
	}
	return fmt.Errorf("%w: nothing can be written beside the file: %w", err, reason)
}

// checkpoint copies the log into the file, so that it starts over.
func (c *conn) checkpoint() error {
	_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
	return err
}

// smallLog is the size of a log that the next process to open the file reads in a
// fraction of a millisecond.
const smallLog = 128 << 10

// keepSmallLog keeps a small log from being copied into the file when the last
// connection is closed, which costs four syncs of the disk: a command that takes a lock
// for a moment would mostly wait for them.
func (c *conn) keepSmallLog() {
	if c.log == nil {
		return
	}
	if size, err := c.log.Size(); err == nil && size <= smallLog {
		_, _ = c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true) // if it fails, the log is copied
	}
}

// classify wraps SQLite's errors in the driver's sentinels where one fits.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrUnreachable):
		return err
	case errors.Is(err, sqlite3.PROTOCOL): // it has waited for the readers' locks for long
		return errBusy(err)
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED), errors.Is(err, sqlite3.INTERRUPT),
		errors.Is(err, sqlite3.IOERR):
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	case errors.Is(err, sqlite3.PERM), errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.AUTH):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}
