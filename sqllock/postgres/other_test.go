package postgres

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
)

// noDriver is a driver of database/sql that is not pgx's.
type noDriver struct{}

func (noDriver) Connect(context.Context) (sqldriver.Conn, error) { return noConn{}, nil }
func (noDriver) Driver() sqldriver.Driver                        { return nil }

type noConn struct{}

var errNo = errors.New("not here")

func (noConn) Prepare(string) (sqldriver.Stmt, error) { return nil, errNo }
func (noConn) Close() error                           { return nil }
func (noConn) Begin() (sqldriver.Tx, error)           { return nil, errNo }
