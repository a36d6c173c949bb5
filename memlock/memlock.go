// Package memlock is the reference engine: it keeps the lines in memory, so its
// locks exclude only the users of one Engine value in one process, and nothing
// outlives it. The conformance suite is checked against it, and tests of code that
// takes a pawl client should use it.
//
// URLs: "mem:" opens a new, empty engine each time.
package memlock

import (
	"cmp"
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func init() {
	driver.Register("mem", func(_ context.Context, u *url.URL) (driver.Engine, error) {
		if err := driverkit.ReadURL("memlock", u).Err(); err != nil {
			return nil, err
		}
		return New(), nil
	})
}

// Engine keeps lines of claims in memory. It is safe for concurrent use.
type Engine struct {
	sessions *driverkit.Sessions[*session]

	mu         sync.Mutex // guards what follows, all claims in lines and the enlistments of sessions
	lines      lines
	records    records
	last       uint64 // the last token or version given out
	membership membership
	ahead      time.Duration // of the clock, by StepClock
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// New returns an empty engine.
func New() *Engine {
	e := &Engine{
		sessions: driverkit.NewSessions[*session]("memlock"),
		lines:    lines{byName: map[string]*line{}},
		records:  records{byKey: map[string]record{}},
	}
	e.lines.mint = func(p *place) {
		now := e.nowLocked()
		e.last = mint(e.last, uint64(now.UnixMicro()), now)
		p.token, p.granted, p.epoch = e.last, e.last, e.membership.epoch
	}
	return e
}

// Features reports that a memory engine can do everything, with tokens that
// last as long as the engine.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile, Store: "memory"}
}

// Open starts a session.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{engine: e, id: o.ID, ttl: o.TTL, claims: driverkit.NewClaims[place]()}
	if err := e.sessions.Add(s.id, s); err != nil {
		return nil, err
	}
	return s, nil
}

// List yields the claims on names that begin with prefix.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, entry := range e.snapshot(prefix) {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

func (e *Engine) snapshot(prefix string) []driver.Entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.nowLocked()
	var all []driver.Entry
	for name := range e.lines.byName {
		if strings.HasPrefix(name, prefix) {
			all = append(all, e.lines.settled(name, now).entries(now)...)
		}
	}
	slices.SortStableFunc(all, func(a, b driver.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Line returns the claims of one name.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.nowLocked()
	return e.lines.settled(name, now).entries(now), nil
}

// Evict breaks exactly the claim that x shows.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.nowLocked()
	l := e.lines.settled(x.Name, now)
	i := l.find(x.ID)
	if i < 0 {
		return driver.ErrGone
	}
	if p := l.claims[i]; p.Claim.Try != x.Try || p.State.held != x.Held || p.State.visibleToken() != x.Fence {
		return driver.ErrGone
	}
	e.lines.end(l, i, now)
	return nil
}

// Watch tells of departures from name's line.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.lines.watchers.Watch(ctx, name, 0), nil
}

// Size counts what the engine remembers, to test that nothing stays behind.
func (e *Engine) Size() (lines, watched, records int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lines.byName), len(e.lines.watchers.Names()), len(e.records.byKey)
}

// Close ends every session with its claims.
func (e *Engine) Close() error {
	for _, s := range e.sessions.All() {
		s.claims.Close() // all of them first: the end of one session's claim is no other session's turn
	}
	return e.sessions.Close()
}
