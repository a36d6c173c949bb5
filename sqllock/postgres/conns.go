package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// beatConns is how many connections are kept for beats. With three, neither a beat that
// is stuck on a dead connection nor one that waits for a row delays the next.
const beatConns = 3

// beatSource returns the connections for beats, or those of the user while there are
// none.
func (s *store) beatSource(ctx context.Context) source {
	if s.keepConns(ctx) != nil {
		return s.from
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beats == nil {
		return s.from
	}
	return s.beats
}

// keepConns makes the connections for beats, once.
func (s *store) keepConns(ctx context.Context) error {
	s.mu.Lock()
	done := s.beats != nil || s.closed
	s.mu.Unlock()
	if done {
		return nil
	}
	beats, err := s.from.keep(ctx) // may wait
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.beats == nil && !s.closed {
		s.beats, beats = beats, nil
	}
	s.mu.Unlock()
	if beats != nil { // another caller was faster
		beats.close()
	}
	return nil
}

func (s *store) closeBeats() {
	s.mu.Lock()
	beats := s.beats
	s.beats, s.closed = nil, true
	s.mu.Unlock()
	if beats != nil {
		beats.close()
	}
}

type connKey struct{ *store }

// oneConn runs fn with a ctx under which with uses one connection of the user's.
func (s *store) oneConn(ctx context.Context, fn func(context.Context)) error {
	return s.withCtxErr(ctx, s.from.with(ctx, func(c *pgx.Conn) error {
		fn(context.WithValue(ctx, connKey{s}, c))
		return nil
	}))
}

// with runs fn on the connection of oneConn, if ctx has one that can still be used, or on
// one of from.
func (s *store) with(ctx context.Context, from source, fn func(*pgx.Conn) error) error {
	if c, ok := ctx.Value(connKey{s}).(*pgx.Conn); ok && !c.IsClosed() && c.PgConn().TxStatus() == 'I' {
		defer closeCancelled(ctx, c)
		return fn(c)
	}
	return from.with(ctx, fn)
}
