package redislock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Engine keeps lines of claims in Redis. It is safe for concurrent use.
type Engine struct {
	c    Client
	o    options
	keys layout
	id   string // names the engine's channels
	bad  error  // of the options: what every call answers

	begun  context.Context // ends when Close begins
	finish context.CancelFunc
	tasks  sync.WaitGroup // the goroutines that listen; Close waits for them

	policy *policy

	mu       sync.RWMutex // guards what follows
	sessions map[string]*session
	ears     map[string]*ear   // by channel
	watches  map[string]*watch // by name
	closed   bool
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

var errClosed = errors.New("redislock: engine is closed")

// New returns an engine on c. It asks nothing of the server yet, so a prefix that
// makes no sense is answered by the first call. Without [WithoutScripts] it is an
// *[Engine].
func New(c Client, opts ...Option) driver.Engine {
	o := collect(opts)
	id := newID()
	keys := newLayout(o.prefix, id, c.Clustered())
	bad := driver.Join(keys.check(), o.check())
	if o.bare {
		return newBare(c, o, keys, bad)
	}
	e := &Engine{
		c: c, o: o, keys: keys, id: id, bad: bad,
		sessions: map[string]*session{},
		ears:     map[string]*ear{},
		watches:  map[string]*watch{},
		policy:   newPolicy(c, o),
	}
	e.begun, e.finish = context.WithCancel(context.Background())
	return e
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Features reports that Redis keeps lines of every kind and pushes. Its tokens
// may repeat, though it takes more than a loss of data: see the package comment.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile}
}

// Open starts a session. It writes nothing: a session is seen by its claims. The
// first one asks the server whether it may evict keys.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	s := newSession(e, o)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	e.sessions[s.id] = s
	return s, nil
}

func newSession(e *Engine, o driver.SessionOptions) *session {
	ttl := wholeMillis(o.TTL)
	s := &session{
		e: e, id: o.ID, ttl: ttl, millis: strconv.FormatInt(ttl.Milliseconds(), 10),
		done:  make(chan struct{}),
		spots: map[string]*spot{},
	}
	s.tail = " " + word(o.ID) + " " + s.millis + " 0 "
	return s
}

// wholeMillis rounds up to what Redis counts expiry in.
func wholeMillis(d time.Duration) time.Duration {
	const ms = time.Millisecond
	if rest := d % ms; rest != 0 {
		d += ms - rest
	}
	return max(d, ms)
}

// word is a session's ID as one word, for where words are separated by blanks.
func word(id string) string {
	if id == "" {
		return "-"
	}
	return url.PathEscape(id)
}

func unword(w string) string {
	if w == "-" {
		return ""
	}
	if id, err := url.PathUnescape(w); err == nil {
		return id
	}
	return w
}

// Close ends the sessions that are still open with their claims, and what the
// engine started. It bounds itself: where the server does not answer, the claims
// stay until they expire. The user's client stays open.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	open := make([]*session, 0, len(e.sessions))
	for _, s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close(ctx))
	}
	e.policy.close()
	e.finish()
	e.tasks.Wait()
	return driver.Join(append(errs, e.c.Close())...)
}

const closeTimeout = 2 * time.Second

// ready says why nothing can be kept in the server.
func (e *Engine) ready(ctx context.Context) error {
	if e.bad != nil {
		return e.bad
	}
	return e.policy.fine(ctx)
}
