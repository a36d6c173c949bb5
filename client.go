package pawl

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// A Client takes, keeps and gives back locks in one store. It is safe for
// concurrent use; a program needs one per store.
type Client struct {
	clock
	engine   driver.Engine
	features driver.Features
	kind     string // the engine's name, for errors
	owned    bool   // Close closes the engine
	defaults options

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
	gates    map[gateKey]*gate
	near     *gate // one that is not among gates, so that who locks alone need not touch them; also when nobody uses it
}

// New returns a client on an engine, which Close leaves open. A nonsensical
// option is reported by the first call.
func New(engine driver.Engine, opts ...Option) *Client {
	return newClient(engine, defaults().with(opts))
}

func newClient(engine driver.Engine, o options) *Client {
	c := &Client{
		clock:    clock{asleep: machineAsleep},
		engine:   engine,
		features: engine.Features(),
		kind:     kindOf(engine),
		defaults: o,
		opening:  make(chan struct{}, 1),
		done:     make(chan struct{}),
		shared:   map[time.Duration]*session{},
		sessions: map[*session]struct{}{},
		gates:    map[gateKey]*gate{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Close gives everything back and ends the contexts of all leases with
// ErrClosed; waiting calls, and all that come later, return ErrClosed. It waits for
// its goroutines. An error says that the store could not be told, so that what was
// held stays in the way of others until it expires.
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
	c.calls.Wait() // nobody joins a session any more
	all := c.all()
	for _, s := range all {
		s.surrender()
		s.shut()
	}
	c.keepers.Wait()
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

// Engine returns the engine the client was made with.
func (c *Client) Engine() driver.Engine { return c.engine }

// List yields the claims, held and waiting, on names that begin with prefix.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if c.ctx.Err() != nil {
			yield(driver.Entry{}, c.fail("list", prefix, ErrClosed))
			return
		}
		for e, err := range c.engine.List(ctx, prefix) {
			if err != nil {
				err = c.fail("list", prefix, c.whyNot(err))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Line returns the claims on one name, held and waiting, in the line's order. It is
// one step, however many other names the store has.
func (c *Client) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := checkName(name); err != nil {
		return nil, c.fail("line", name, err)
	}
	if c.ctx.Err() != nil {
		return nil, c.fail("line", name, ErrClosed)
	}
	line, err := c.engine.Line(ctx, name)
	if err != nil {
		return nil, c.fail("line", name, c.whyNot(err))
	}
	return line, nil
}

// Evict breaks exactly the claim that e, from List, shows. It does not stop the
// holder's work: the holder is told, and its token is stale from now on.
// ErrNotHeld says that the claim is not there any more, or has changed.
func (c *Client) Evict(ctx context.Context, e driver.Entry) error {
	if c.ctx.Err() != nil {
		return c.fail("evict", e.Name, ErrClosed)
	}
	err := c.engine.Evict(ctx, e)
	if errors.Is(err, driver.ErrGone) {
		err = ErrNotHeld
	}
	if err != nil {
		return c.fail("evict", e.Name, c.whyNot(err))
	}
	return nil
}

// whyNot is ErrClosed in place of what an engine says that was closed in the middle.
func (c *Client) whyNot(err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// Records returns the engine's small versioned values, or ErrUnsupported.
func (c *Client) Records() (driver.Records, error) {
	if c.ctx.Err() != nil {
		return nil, c.fail("records", "", ErrClosed)
	}
	r, ok := c.engine.(driver.Records)
	if !ok {
		return nil, c.fail("records", "", ErrUnsupported)
	}
	return r, nil
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

func (c *Client) all() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*session, 0, len(c.sessions))
	for s := range c.sessions {
		all = append(all, s)
	}
	return all
}

// kindOf names an engine by its package.
func kindOf(engine driver.Engine) string {
	t := reflect.TypeOf(engine)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == "" {
		return t.String()
	}
	return path.Base(t.PkgPath())
}

// newID returns 128 random bits.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// whoami is the note of a client that sets none: user@host, process and program.
var whoami = sync.OnceValue(func() string {
	who := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		who = u.Username
	} else if uid := os.Getuid(); uid >= 0 { // a user who has no name, as in a container
		who = strconv.Itoa(uid)
	}
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	who += " pid " + strconv.Itoa(os.Getpid()) + " " + filepath.Base(os.Args[0])
	if len(who) > driver.MaxNote || !utf8.ValidString(who) {
		who = "pid " + strconv.Itoa(os.Getpid())
	}
	return who
})
