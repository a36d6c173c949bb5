package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// onBeats runs fn on a connection for beats, or on one of the user's if there is none:
// the user's pool may be able to log in where ours is not.
func (s *store) onBeats(ctx context.Context, fn func(*pgx.Conn) error) error {
	err := s.beats.with(ctx, fn)
	if isNotConnected(err) && ctx.Err() == nil {
		return s.from.with(ctx, fn)
	}
	return err
}

type connKey struct{ *store }

// oneConn runs fn with a ctx under which with uses one connection of the user's.
func (s *store) oneConn(ctx context.Context, fn func(context.Context)) error {
	return s.withCtxErr(ctx, s.from.with(ctx, func(c *pgx.Conn) error {
		fn(context.WithValue(ctx, connKey{s}, c))
		return nil
	}))
}

// with runs fn on the connection of oneConn, if ctx has one that can still be used, or
// with other.
func (s *store) with(ctx context.Context, other func(context.Context, func(*pgx.Conn) error) error, fn func(*pgx.Conn) error) error {
	if c, ok := ctx.Value(connKey{s}).(*pgx.Conn); ok && !c.IsClosed() && c.PgConn().TxStatus() == 'I' {
		defer closeCancelled(ctx, c)
		return fn(c)
	}
	return other(ctx, fn)
}
