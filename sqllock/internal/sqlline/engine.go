package sqlline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// Engine keeps lines of claims in a database. It is safe for concurrent use.
type Engine struct {
	d      Dialect
	q      *statements
	prefix string // before every name and record key

	heads        knownHeads
	leaving      leaveLimit
	blockingBeat chan struct{} // has room for the one beat that waits for a row

	running context.Context // ends when Close begins
	stop    context.CancelFunc
	tasks   sync.WaitGroup // Listen, resend and sweeps; Close waits for them

	mu        sync.Mutex // guards what follows
	waiters   map[string]*waiter
	unsent    []string // claims whose notice did not go out in time
	resending bool     // resend runs
	watchers  map[string][]*watcher
	polls     map[string]*poll // by name, of waiters and watchers
	sessions  map[*session]struct{}
	activity  chan struct{} // closed when a waiter or watcher is added or a polled name changes; nil if nobody receives
	watching  chan struct{} // closed when a watcher is added; nil if nobody receives
	missed    chan struct{} // closed when a waiter finds a turn it was not notified of; nil if nobody receives
	listening bool          // Listen was started
	closed    bool
	sweep     sweepState
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// maxPrefix is the longest prefix: with a name of 255 bytes it fits into the key of
// every database.
const maxPrefix = 255

// New returns an engine that uses d. Names and record keys are stored behind prefix, so
// that several users of one database do not meet.
func New(d Dialect, prefix string) (*Engine, error) {
	if strings.ContainsFunc(prefix, unicode.IsControl) || !utf8.ValidString(prefix) {
		return nil, fmt.Errorf("%s: the prefix is not UTF-8 without control characters", d.Name)
	}
	if len(prefix) > maxPrefix {
		return nil, fmt.Errorf("%s: prefix of %d bytes, at most %d", d.Name, len(prefix), maxPrefix)
	}
	q, err := compile(&d)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		d: d, q: q, prefix: prefix,
		blockingBeat: make(chan struct{}, 1),
		waiters:      map[string]*waiter{},
		watchers:     map[string][]*watcher{},
		polls:        map[string]*poll{},
		sessions:     map[*session]struct{}{},
	}
	e.running, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Features reports what the engine can do: lines of every kind.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: e.d.Push, Shared: true, Count: true, Fencing: e.d.Fencing}
}

// Open starts a session. It writes nothing: a session is visible by its claims.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := newSession(e, o)
	openEngines.add(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		openEngines.remove(e)
		return nil, e.errClosed()
	}
	e.sessions[s] = struct{}{}
	return s, nil
}

// Close ends the open sessions with all their claims, and the goroutines of the engine.
// It takes closeTimeout at most: in a store that does not answer the claims stay until
// they expire.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	open := make([]*session, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	for _, w := range e.waiters {
		w.wake()
	}
	e.mu.Unlock()
	openEngines.remove(e)
	e.stop()
	e.tasks.Wait()

	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.end(ctx))
	}
	return driver.Join(errs...)
}

const closeTimeout = 2 * time.Second
