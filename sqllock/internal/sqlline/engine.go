package sqlline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Engine keeps lines of claims in a database. It is safe for concurrent use.
type Engine struct {
	d      Dialect
	q      *statements
	prefix string // before every name and record key

	heads        knownHeads
	leaving      nameLimit
	entering     nameLimit
	blockingBeat chan struct{} // has room for the one beat that waits for a row

	sessions *driverkit.Sessions[*session] // and the goroutines of Listen, resend and sweeps
	waiters  driverkit.Waiters
	watchers driverkit.Watchers

	mu        sync.Mutex // guards what follows
	unsent    Notices    // those that did not go out in time
	resending bool       // resend runs
	polls     map[string]*poll
	places    map[string]map[*driverkit.Waiter]place // of those that wait here, by name
	activity  chan struct{}                          // closed when a waiter or watcher is added or a polled name changes; nil without a receiver
	watching  chan struct{}                          // closed when a watcher is added; nil without a receiver
	missed    chan struct{}                          // closed when a waiter finds a turn it was not notified of; nil without a receiver
	listening bool                                   // Listen was started
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
	return &Engine{
		d: d, q: q, prefix: prefix,
		blockingBeat: make(chan struct{}, 1),
		sessions:     driverkit.NewSessions[*session](d.Name),
		unsent:       Notices{},
		polls:        map[string]*poll{},
		places:       map[string]map[*driverkit.Waiter]place{},
	}, nil
}

// Features reports what the engine can do: lines of every kind.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: e.d.Notify != nil, Shared: true, Count: true, Fencing: driver.Durable, Store: e.d.Name}
}

// ExaminedOf returns what an examiner uses of an engine of this package, or of one that
// embeds it; nil for any other.
func ExaminedOf(e driver.Engine) *sqlstore.Examined {
	if x, ok := e.(interface{ examined() *sqlstore.Examined }); ok {
		return x.examined()
	}
	return nil
}

func (e *Engine) examined() *sqlstore.Examined { return e.d.Examined }

// Open starts a session. It writes nothing: a session is visible by its claims.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.d.Ready != nil {
		if err := e.d.Ready(ctx); err != nil {
			return nil, err
		}
	}
	s := newSession(e, o)
	openEngines.Store(e, nil)
	if err := e.sessions.Add(o.ID, s); err != nil {
		openEngines.Delete(e)
		return nil, err
	}
	return s, nil
}

// Close ends the open sessions with all their claims, and the goroutines of the engine.
// It bounds itself: in a store that does not answer the claims stay until they expire.
func (e *Engine) Close() error {
	openEngines.Delete(e)
	return e.sessions.Close()
}
