package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	_ "github.com/ncruces/go-sqlite3/driver" // the driver sqlite3

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
	"github.com/pawl-go/pawl/sqllock/sqlite"
)

// A ledger books orders in a database. The entry, and the record that it was made,
// are committed together: an order is booked exactly once, whichever process dies when.
type ledger struct {
	db      *sql.DB
	records driver.Records // of the engine whose tables are in db
	insert  string
}

// book books an order and returns its receipt, also if it was booked before.
func (l *ledger) book(ctx context.Context, order string) (string, error) {
	for {
		receipt, err := l.try(ctx, order)
		if !errors.Is(err, driver.ErrConflict) { // it was booked while we began
			return receipt, err
		}
	}
}

func (l *ledger) try(ctx context.Context, order string) (string, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback() // after Commit it does nothing
	receipt, err := sqllock.OnceTx(ctx, tx, l.records, order, func(ctx context.Context) (string, error) {
		_, err := tx.ExecContext(ctx, l.insert, order)
		return "receipt of " + order, err
	}, sqllock.WithPayload([]byte(order)))
	if err != nil {
		return "", err
	}
	return receipt, tx.Commit()
}

// bookTwice books every order twice, in a file of SQLite.
func bookTwice(ctx context.Context, orders int) (err error) {
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	engine, err := sqlite.Open(ctx, file)
	if err != nil {
		return err
	}
	defer engine.Close()
	db, err := sql.Open("sqlite3", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE entries (name TEXT NOT NULL)"); err != nil {
		return err
	}
	shop := ledger{db, engine, "INSERT INTO entries (name) VALUES (?)"}
	errs := make(chan error, 2*orders)
	var all sync.WaitGroup
	for i := range 2 * orders {
		all.Go(func() {
			_, err := shop.book(ctx, fmt.Sprint("order ", i/2))
			errs <- err
		})
	}
	all.Wait()
	for range 2 * orders {
		if err := <-errs; err != nil {
			return err
		}
	}
	var entries int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM entries").Scan(&entries); err != nil {
		return err
	}
	if entries != orders {
		return fmt.Errorf("%d entries of %d orders", entries, orders)
	}
	fmt.Printf("%d requests, %d orders, %d entries in the ledger\n", 2*orders, orders, entries)
	return nil
}
