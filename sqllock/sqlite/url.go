package sqlite

import (
	"context"
	"net/url"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
)

func init() { driver.Register("sqlite", openURL) }

func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	l, err := sqlitefile.ParseURL(u)
	if err != nil {
		return nil, err
	}
	opts := []Option{WithPrefix(l.Prefix)}
	if l.ReadOnly {
		opts = append(opts, WithReadOnly())
	}
	if l.Network {
		opts = append(opts, WithNetwork())
	}
	e, err := Open(ctx, l.Path, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}
