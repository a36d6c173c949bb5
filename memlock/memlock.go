// Package memlock is the reference engine: it keeps the lines in memory, so its
// locks exclude only the users of one Engine value in one process, and nothing
// outlives it. It is what the conformance suite is checked against, and what a
// test should use where the code under test takes a pawl client.
//
// URLs: "mem:" opens a new, empty engine each time.
package memlock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func init() {
	driver.Register("mem", func(_ context.Context, u *url.URL) (driver.Engine, error) {
		for key := range u.Query() {
			return nil, driver.BadURL("memlock: unknown %s (there are none)", driver.ShowParameter(u, key))
		}
		return New(), nil
	})
}

// Engine keeps lines of claims in memory. It is safe for concurrent use.
type Engine struct {
	mu       sync.Mutex // guards everything below and every line and session
	lines    map[string]*line
	records  map[string]record
	watchers map[string][]chan struct{}
	last     uint64 // the last token or version given out
	roll     roll
	sweepAt  int // forget ended records when there are this many
	closed   bool
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

var errClosed = errors.New("memlock: engine is closed")

// New returns an empty engine.
func New() *Engine {
	return &Engine{
		lines:    map[string]*line{},
		records:  map[string]record{},
		watchers: map[string][]chan struct{}{},
		sweepAt:  1024,
	}
}

// Features reports that a memory engine can do everything, with tokens that
// last as long as the engine.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile}
}

// Open starts a session.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	return &session{engine: e, id: o.ID, ttl: o.TTL}, nil
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
	now := time.Now()
	var all []driver.Entry
	for name := range e.lines {
		if strings.HasPrefix(name, prefix) {
			all = append(all, e.entriesLocked(name, now)...)
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
	return e.entriesLocked(name, time.Now()), nil
}

func (e *Engine) entriesLocked(name string, now time.Time) []driver.Entry {
	l := e.lines[name]
	if l == nil {
		return nil
	}
	e.settleLocked(name, l, now)
	all := make([]driver.Entry, len(l.spots))
	for i, s := range l.spots {
		all[i] = s.entry(now)
	}
	return all
}

// Evict breaks exactly the claim that x shows.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	l := e.lines[x.Name]
	if l == nil {
		return driver.ErrGone
	}
	e.settleLocked(x.Name, l, now)
	i := l.find(x.ID)
	if i < 0 {
		return driver.ErrGone
	}
	if s := l.spots[i]; s.claim.Try != x.Try || s.held != x.Held || s.shownToken() != x.Fence {
		return driver.ErrGone
	}
	e.endLocked(x.Name, l, i, now)
	return nil
}

// Watch tells of departures from name's line.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	told := make(chan struct{}, 1) // closed by the AfterFunc below, under mu
	e.mu.Lock()
	e.watchers[name] = append(e.watchers[name], told)
	e.mu.Unlock()
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		rest := slices.DeleteFunc(e.watchers[name], func(c chan struct{}) bool { return c == told })
		if len(rest) == 0 {
			delete(e.watchers, name)
		} else {
			e.watchers[name] = rest
		}
		close(told)
	})
	return told, nil
}

// Size counts what the engine remembers, to test that nothing stays behind.
func (e *Engine) Size() (lines, watchers, records int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lines), len(e.watchers), len(e.records)
}

// Close ends every session; the lines are forgotten and waiters come back.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, l := range e.lines {
		for _, s := range l.spots {
			s.wake()
		}
	}
	clear(e.lines)
	return nil
}
