package pawl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"path"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Client takes, keeps and gives back locks in one store. It is safe for
// concurrent use; a program needs one per store.
type Client struct {
	clock
	engine   driver.Engine
	features driver.Features
	kind     string // of store, for errors and events
	owned    bool   // Close closes the engine
	defaults options
	gates    gates
	counters counters

	ctx       context.Context // ends, with ErrClosed, when the client is closed
	cancel    context.CancelCauseFunc
	contacted atomic.Bool    // the store has answered once
	calls     sync.WaitGroup // acquires under way; Close waits for them
	keepers   sync.WaitGroup // sessions' keepers; Close waits for them
	opening   chan struct{}  // holds one token while a session is being opened
	done      chan struct{}  // closed when Close is done
	closeErr  error          // written before that

	mu       sync.Mutex // guards the following
	closed   bool
	shared   map[time.Duration]*session // by TTL
	sessions map[*session]struct{}      // all that have a keeper
}

// New returns a client on an engine, which Close leaves open. An invalid option is
// reported by the first call.
func New(engine driver.Engine, opts ...Option) *Client {
	return newClient(engine, defaults().with(opts))
}

func newClient(engine driver.Engine, o options) *Client {
	c := &Client{
		clock:    clock{asleep: machineAsleep},
		engine:   engine,
		features: engine.Features(),
		kind:     cmp.Or(engine.Features().Store, engineName(engine)),
		defaults: o,
		gates:    gates{byKey: map[gateKey]*gate{}},
		opening:  make(chan struct{}, 1),
		done:     make(chan struct{}),
		shared:   map[time.Duration]*session{},
		sessions: map[*session]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// engineName names an engine that does not say what its store is, by its package.
func engineName(engine driver.Engine) string {
	t := reflect.TypeOf(engine)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == "" {
		return t.String()
	}
	return path.Base(t.PkgPath())
}

// Close gives everything back and ends the contexts of all leases with
// ErrClosed; waiting calls, and all that come later, return ErrClosed. It waits for
// its goroutines. An error says that the store could not be told, so that what was
// held blocks other processes until it expires.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.closeErr = c.close()
		close(c.done)
	}
	<-c.done // a second Close waits for the first
	return c.closeErr
}

func (c *Client) close() error {
	c.cancel(ErrClosed)
	c.calls.Wait() // no claim joins a session any more
	all := c.allSessions()
	told := slices.Clone(c.defaults.observers) // maybe of a loss a moment ago
	for _, s := range all {
		told = append(told, s.observers()...)
		s.die(ErrClosed)
	}
	c.keepers.Wait()
	told.settle() // once the store was told
	var errs []error
	for _, s := range all {
		if s.unended != nil {
			errs = append(errs, c.fail("close", "", s.unended))
		}
	}
	if c.owned {
		errs = append(errs, c.engine.Close())
	}
	return driver.Join(errs...)
}

func (c *Client) allSessions() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.sessions))
}

// begin counts a call in, unless the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls.Add(1)
	return true
}

// exactSessions is how many sessions a client has for TTLs exactly as they were
// asked for. Further TTLs are rounded up, see roundTTL.
const exactSessions = 32

// attach makes cl a claim of the session for its TTL: the shared one, or one of its
// own for a lease without renewal, which the beats of another must not prolong.
func (c *Client) attach(ctx context.Context, cl *claim) error {
	if cl.o.fixed {
		s, err := c.open(ctx, cl.o.ttl, cl.o.ttl, true)
		if err == nil && !s.join(cl) {
			err = driver.ErrGone
		}
		return err
	}
	for {
		if s, _ := c.find(cl.o.ttl); s != nil {
			if err := s.overloaded(); err != nil {
				return err
			}
			if s.join(cl) {
				return nil
			}
		}
		select {
		case c.opening <- struct{}{}: // one opener at a time
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		if s, ttl := c.find(cl.o.ttl); s == nil || !s.open() {
			_, err = c.open(ctx, cl.o.ttl, ttl, false)
		}
		<-c.opening
		if err != nil {
			return err
		}
	}
}

// find returns the session for a TTL, nil if there is none yet, and the TTL that it
// has or should be opened with.
func (c *Client) find(ttl time.Duration) (*session, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shared[ttl]; s != nil || len(c.shared) < exactSessions {
		return s, ttl
	}
	ttl = roundTTL(ttl)
	return c.shared[ttl], ttl
}

// roundTTL rounds a TTL up to one of four steps between a power of two and the next,
// by less than a quarter. A program that computes its TTLs, as from deadlines, would
// otherwise have a session, with beats of its own, for nearly every lock.
func roundTTL(ttl time.Duration) time.Duration {
	step := time.Duration(1) << max(0, bits.Len64(uint64(ttl))-3)
	return (ttl + step - 1) / step * step
}

// open starts a session that asks for ttl and is of use if it gets at least need.
func (c *Client) open(ctx context.Context, need, ttl time.Duration, fixed bool) (*session, error) {
	id, sent := newID(), c.now()
	call, cancel := context.WithTimeout(ctx, min(need, maxTry)) // callers with other TTLs wait for it too
	defer cancel()
	d, err := c.engine.Open(call, driver.SessionOptions{ID: id, TTL: ttl, Note: c.defaults.note})
	if err != nil {
		return nil, err
	}
	if got := d.TTL(); got < need {
		_ = d.Close(call)
		return nil, fmt.Errorf("%w: TTL of %v, the store keeps at most %v", ErrInvalid, need, got)
	}
	if c.features.BySession { // the store keeps the session, and so has answered
		c.contacted.Store(true)
	}
	s := newSession(c, d, id, fixed, sent)
	s.forget = func() { c.forget(s) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[s] = struct{}{}
	if !fixed {
		c.shared[ttl] = s
	}
	c.keepers.Add(1)
	go s.keep() // Close waits for it, by keepers
	return s, nil
}

// forget takes an ended session out of the maps.
func (c *Client) forget(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s)
	maps.DeleteFunc(c.shared, func(_ time.Duration, o *session) bool { return o == s })
}
