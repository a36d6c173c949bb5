package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/driver"
)

// An application may leave a connection of its pool in the middle of a transaction, by a
// BEGIN of its own, or without autocommit. What is written on such a connection is
// committed, or rolled back, with the application's work: a grant would exclude nobody,
// or be forgotten. Ending that transaction is not our right, so another connection is
// used.
var (
	errAutocommitOff = fmt.Errorf("%w: mysql: autocommit is off on these connections, and a lock that is not committed excludes no other holder",
		driver.ErrUnsupported)
	errInTransaction = fmt.Errorf("%w: mysql: connections of the pool were left in a transaction, and a lock must not end with it: "+
		"use BeginTx, which keeps a connection until the transaction ends", driver.ErrUnreachable)
)

// isLeftOpen reports whether a connection was found as an application left it.
func isLeftOpen(err error) bool {
	return isCode(err, inTransaction) || errors.Is(err, errInTransaction) || errors.Is(err, errAutocommitOff)
}

// maxAside is how many such connections are put aside to find another one.
const maxAside = 4

// Flags that the server sends with every answer.
const (
	statusInTransaction = 1 << 0
	statusAutocommit    = 1 << 1
)

var clientPackage = reflect.TypeFor[mysql.Config]().PkgPath()

// leftOpen returns why a connection cannot be used as the application left it. known is
// false if the client does not tell, as one that is wrapped: then each batch has to begin
// a transaction explicitly, which the server refuses inside another one.
//
// The client keeps the server's flags to itself. Asking the server would cost a round
// trip for every lock, and MySQL has no expression for it, so the field is read by its
// name; TestLeftoversAreRecognised fails if it is gone.
func leftOpen(c *sql.Conn) (known bool, err error) {
	_ = c.Raw(func(dc any) error { // fails only if the connection is closed, which its user notices
		v := reflect.Indirect(reflect.ValueOf(dc))
		if v.Kind() != reflect.Struct || v.Type().PkgPath() != clientPackage {
			return nil
		}
		status := v.FieldByName("status")
		if known = status.IsValid() && status.CanUint(); !known {
			return nil
		}
		switch flags := status.Uint(); {
		case flags&statusInTransaction != 0:
			err = errInTransaction
		case flags&statusAutocommit == 0:
			err = errAutocommitOff
		}
		return nil
	})
	return known, err
}

// onCleanConn runs fn on a connection of db that was not left open. Others are put aside
// until one is found: returned at once, they would be the next that the pool gives. Where
// the client does not tell, fn fails with inTransaction before it has done anything.
func onCleanConn(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) (left error) {
	var aside []*sql.Conn
	putBack := func() {
		for _, c := range aside {
			_ = c.Close() // returns it to the pool
		}
		aside = nil
	}
	defer putBack()
	for range maxAside {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		var known bool
		if known, left = leftOpen(c); left == nil {
			if known {
				putBack() // fn may wait for a row
			}
			left = fn(c)
		}
		if aside = append(aside, c); !isLeftOpen(left) {
			return left
		}
		if s := db.Stats(); s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
			break
		}
	}
	return left
}
