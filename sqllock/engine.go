package sqllock

import (
	"context"
	"errors"
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

	heads   heads // names whose row is there
	exits   exits
	patient chan struct{} // has room for the one beat that waits for a row

	begun  context.Context // ends when Close begins
	finish context.CancelFunc
	tasks  sync.WaitGroup // Attend and tellUntold; Close waits for them

	mu       sync.Mutex // guards what follows
	waiters  map[string]*waiter
	untold   []string // claims whose notice did not go out in time
	telling  bool     // tellUntold runs
	watchers map[string][]*watcher
	polls    map[string]*poll // by name, of those who wait or watch
	sessions map[*session]struct{}
	stirred  chan struct{} // closed when somebody begins to wait; nil if nobody waits for that
	watching chan struct{} // closed when somebody begins to watch; nil if nobody waits for that
	missed   chan struct{} // closed when a turn was found that nobody told of; nil if nobody waits for that
	attended bool          // Attend was started
	closed   bool
	sweep    sweep
}

var (
	_ driver.Engine  = (*Engine)(nil)
	_ driver.Records = (*Engine)(nil)
	_ driver.Watcher = (*Engine)(nil)
)

// separator stands between prefix and name: a control character, which no name
// has, so that "team"+"2x" is not "team2"+"x".
const separator = "\x1f"

// maxPrefix is the longest prefix: with a name of 255 bytes it fits into every
// database's key.
const maxPrefix = 255

// New returns an engine that speaks d. Names and record keys are stored behind
// prefix, so that several users of one database do not meet.
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
		patient:  make(chan struct{}, 1),
		waiters:  map[string]*waiter{},
		watchers: map[string][]*watcher{},
		polls:    map[string]*poll{},
		sessions: map[*session]struct{}{},
	}
	e.begun, e.finish = context.WithCancel(context.Background())
	return e, nil
}

// Features reports what the dialect's engine can do: lines of every kind.
func (e *Engine) Features() driver.Features {
	return driver.Features{Queue: true, Push: e.d.Push, Shared: true, Count: true, Fencing: e.d.Fencing}
}

// Open starts a session. It writes nothing: a session is seen by its claims.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{e: e, id: o.ID, ttl: o.TTL, chunk: beatChunkFirst, claims: map[string]driver.Claim{}, spots: map[string]spotHint{}, vain: map[string]struct{}{}, crossings: map[*crossing]struct{}{}}
	s.life, s.cut = context.WithCancel(context.Background())
	e.announce(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.announce(false)
		return nil, e.errClosed()
	}
	e.sessions[s] = struct{}{}
	return s, nil
}

// Close ends the sessions that are still open with all their claims, and what
// the engine started. It bounds itself: a store that does not answer keeps the
// claims until they expire.
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
	e.announce(false)
	e.finish()
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

func (e *Engine) errClosed() error { return errors.New(e.d.Name + ": engine is closed") }

// key is a name as it is stored.
func (e *Engine) key(name string) string {
	if e.prefix == "" {
		return name
	}
	return e.prefix + separator + name
}

// args are the parameters of a flight about one claim.
func (e *Engine) args(c driver.Claim) *Args {
	a := &Args{}
	a.text = [numText]string{Name: e.key(c.Name), ID: c.ID, Live: e.d.Live, Note: c.Note}
	a.set(Try, int64(c.Try))
	a.set(Need, int64(c.Need))
	a.set(Limit, int64(c.Limit))
	if c.Queue {
		a.set(Queue, 1)
	}
	return a
}

// fly runs steps as one flight and wakes those of this process whom it told of.
func (e *Engine) fly(ctx context.Context, f *Flight, told *[]string) error {
	if err := e.d.Store.Run(ctx, f); err != nil || f.Vetoed || f.Missing {
		return err
	}
	e.tell(ctx, *told...)
	e.nudge(f.Steps[0].Args.text[Name])
	return nil
}

// flight collects steps, leaving out those that the dialect has no use for.
func flight(a *Args, told *[]string, qs ...*Query) []Step {
	steps := make([]Step, 0, len(qs)+2)
	for _, q := range qs {
		if q.Text == "" {
			continue
		}
		s := Step{Query: q, Args: a, Locks: q.Name == "lock"}
		switch q.Name {
		case "pass", "prune", "drop", "promote", "admit", "evict", "bury":
			s.Row = func(r Row) error {
				var id string
				err := r.Scan(&id)
				*told = append(*told, id)
				return err
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// handOver lets in the next on a name that was given back.
func (e *Engine) handOver(ctx context.Context, key string) error {
	var told []string
	a := &Args{}
	a.text[Name] = key
	if steps := flight(a, &told, e.q.pass); len(steps) > 0 {
		if err := e.fly(ctx, &Flight{Steps: steps}, &told); err != nil || len(told) > 0 {
			return err
		}
	}
	return e.settle(ctx, key)
}

// settle ends what has expired on a name and lets in whoever fits.
func (e *Engine) settle(ctx context.Context, key string) error {
	var told []string
	a := &Args{}
	a.text[Name] = key
	q := e.q
	return e.fly(ctx, &Flight{Steps: flight(a, &told,
		q.lock, q.expire, q.prune, q.tally, q.front, q.promote, q.vacate, q.admit, q.count)}, &told)
}

// read runs a statement that yields one text a row.
func (e *Engine) read(ctx context.Context, q *Query, a *Args) (texts []string, err error) {
	err = e.d.Store.Read(ctx, &Step{Query: q, Args: a, Row: func(r Row) error {
		var s string
		err := r.Scan(&s)
		texts = append(texts, s)
		return err
	}})
	return texts, err
}

// name is the user's name of a stored one.
func (e *Engine) name(key string) string { return strings.TrimPrefix(key, e.key("")) }
