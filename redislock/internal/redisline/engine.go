// Package redisline keeps lines of claims in Redis by scripts. Each call on a line is
// one script, which the server runs as a whole; a script that changes a line lets in
// the claims that fit then and publishes their grants, so that a waiter need not ask.
//
// The package talks to the server through package redisclient only, and to no socket.
package redisline

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// Config is what an engine is made from.
type Config struct {
	keyspace.Lister // without Patterns and Read, which New sets

	Eviction       *redisclient.EvictionCheck
	Replicas       int           // that must confirm a grant; 0: none
	ReplicaTimeout time.Duration // within which they must
}

// Engine keeps lines of claims in Redis. It is safe for concurrent use.
type Engine struct {
	*store
	watches *watches
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// New returns an engine. It asks nothing of the server yet.
func New(c Config) *Engine {
	s := &store{Config: c, sessions: driverkit.NewSessions[*session]("redislock")}
	e := &Engine{store: s, watches: newWatches(s)}
	s.notify = e.notify
	s.subscriptions = driverkit.NewSubscriptions(s.listen)
	s.sessions.AtClose = func() error {
		s.subscriptions.Close()
		return s.Client.Close()
	}
	s.Patterns, s.Read = s.Keys.Patterns, s.listNames
	return e
}

// Features reports that Redis keeps lines of every kind and pushes. Its tokens may
// repeat if the server loses data and its clock reads earlier than the last token.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile, Store: "redis"}
}

// Open starts a session. It writes nothing: the server knows a session by its claims.
// The first one reads the server's eviction policy.
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

// notify delivers a message to the session of a claim: "<session> <id> <try> <token>",
// where token 0 says that the claim has changed and must be read.
func (e *Engine) notify(message string) {
	w := strings.Split(message, " ")
	if len(w) != 4 {
		return
	}
	try, err := strconv.Atoi(w[2])
	if err != nil {
		return
	}
	token, err := strconv.ParseUint(w[3], 10, 64)
	if err != nil {
		return
	}
	if s, ok := e.sessions.Find(keyspace.Session(w[0])); ok {
		s.granted(w[1], try, token)
	}
}

// Watch notifies of departures from name's line. Departures without a message, an
// expiry or the release by another client of the plain recipe, are found at the expiry
// or within three seconds.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.Ready(ctx); err != nil {
		return nil, err
	}
	return e.watches.watch(ctx, name)
}

// RunID returns the run id of the server, which differs from that of every other
// server and changes with every restart.
func (e *Engine) RunID(ctx context.Context) (string, error) {
	r, err := e.Client.Do(ctx, redisclient.Call{Name: "INFO", Args: []string{"server"}})
	if err != nil {
		return "", redisclient.Wrap(err)
	}
	return redisclient.InfoField(r.Text, "run_id"), nil
}

// Close ends the open sessions with their claims, and the engine's goroutines. If the
// server does not answer in time, the claims stay until they expire. The user's
// client stays open.
func (e *Engine) Close() error { return e.sessions.Close() }
