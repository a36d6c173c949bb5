// Package scriptless keeps holds in a Redis that forbids scripts, by commands that
// compare a value. It is the plain recipe, SET NX PX and compare-and-delete: there is no
// line, nothing shared or counted, and there are no tokens.
package scriptless

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// Config is what an engine is made from.
type Config struct {
	keyspace.Lister // without Patterns and Read, which New sets

	Eviction *redisclient.EvictionCheck
}

// Engine keeps holds without scripts. It is safe for concurrent use.
type Engine struct {
	*store
}

// New returns an engine. It asks nothing of the server yet.
func New(c Config) *Engine {
	s := &store{Config: c, sessions: driverkit.NewSessions[*session]("redislock")}
	s.sessions.AtClose = c.Client.Close
	s.Patterns = func(prefix string) []string { return []string{s.Keys.HoldPattern(prefix)} }
	s.Read = s.listNames
	return &Engine{store: s}
}

// Features reports that the plain recipe has holds and nothing else.
func (e *Engine) Features() driver.Features { return driver.Features{Store: "redis"} }

// Open starts a session. The first one finds out which commands the server has.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.Ready(ctx); err != nil {
		return nil, err
	}
	s := newSession(e.store, o)
	if err := e.sessions.Add(s.id, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Evict breaks exactly the hold that x shows.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.Ready(ctx); err != nil {
		return err
	}
	key := e.Keys.Hold(x.Name)
	r, err := e.Client.Do(ctx, redisclient.Command("GET", key))
	if err != nil {
		return redisclient.Wrap(err)
	}
	if r.Null {
		return driver.ErrGone
	}
	if h, _ := keyspace.ParseHold(x.Name, r.Text, 0); h.ID != x.ID || h.Try != x.Try || h.Fence != x.Fence || h.Foreign != x.Foreign || !x.Held {
		return driver.ErrGone
	}
	return e.remove(ctx, key, r.Text)
}

// Close ends the open sessions with their holds.
func (e *Engine) Close() error { return e.sessions.Close() }
