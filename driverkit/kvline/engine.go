package kvline

import (
	"context"
	"crypto/rand"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Engine keeps each line of claims in one value of a store. It is safe for concurrent
// use.
type Engine struct {
	store    Store
	label    string // errors begin with it
	features driver.Features
	address  string // of its notices
	sessions *driverkit.Sessions[*session]
	notices  *driverkit.Subscriptions
	turns    *driverkit.Subscription // notices to this engine
	watchers driverkit.Watchers
	known    known
	seen     seen
	reads    reads
	entering oneByOne
	asks     requests
	serve    func(*notice)                // takes what others ask for
	stray    func(*session, driver.Claim) // takes a claim that is in line although it has left
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// New returns an engine on a store. label names the kind of store, for errors and metrics; fencing is
// how far the store's revisions can be trusted.
func New(label string, store Store, fencing driver.Level) *Engine {
	e := &Engine{
		store: store, label: label, address: helps + rand.Text(),
		features: driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: fencing, BySession: true, Store: label},
		sessions: driverkit.NewSessions[*session](label),
		notices:  driverkit.NewSubscriptions(store.Listen),
	}
	e.sessions.AtClose = func() error {
		e.notices.Close()
		return store.Close()
	}
	e.serve, e.stray = e.asked, e.leaveStray
	e.turns = e.notices.Open(turnAddress+e.address, e.hear)
	return e
}

// Features reports that the engine can do everything.
func (e *Engine) Features() driver.Features { return e.features }

// Open starts a session, with a value of its own in the store.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	s := &session{e: e, id: o.ID, ttl: o.TTL, claims: driverkit.NewClaims[claimState](), writing: make(chan struct{}, 1)}
	if err := s.prolong(ctx); err != nil {
		return nil, err
	}
	if err := e.sessions.Add(s.id, s); err != nil {
		return nil, err // its value expires
	}
	return s, nil
}

// Watch reports departures from name's line.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	sub := e.notices.Open(leftAddress+encode(name), func(string) { e.watchers.Notify(name) })
	if sub == nil {
		return nil, driver.ErrGone
	}
	if err := sub.WaitUp(ctx); err != nil {
		sub.Release(0)
		return nil, err
	}
	context.AfterFunc(ctx, func() { sub.Release(0) })
	return e.watchers.Watch(ctx, name, 0), nil
}

// Close ends the sessions that are still open with all their claims, everything the
// engine started, and the store.
func (e *Engine) Close() error { return e.sessions.Close() }
