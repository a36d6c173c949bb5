// Package election lets one of many candidates lead, and everybody see which one.
//
// To lead is to hold a lease: at most one candidate leads while leaders stop working
// when their leadership's context ends. A leader that was paused may act for a moment
// after another has begun; give its token to whatever it changes and have that
// refuse a smaller one. [Election.Leader] and [Election.Observe] return what the store
// showed a moment ago: they are for finding the leader, not for deciding who may act.
package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
)

// MaxValue is the longest value of a candidate, in bytes.
const MaxValue = driver.MaxNote

// ErrNoLeader says that nobody leads.
var ErrNoLeader = errors.New("no leader")

// Error says which operation on which election failed.
type Error struct {
	Op, Name string
	Err      error
}

// Error returns the operation, the election's name and what went wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("%s election %q: %s", e.Op, e.Name, driver.OneLine(e.Err.Error()))
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// pollInterval is how often an observer reads the line. Where the engine is a
// driver.Watcher, it also reads after every departure.
const pollInterval = 250 * time.Millisecond

// callTimeout bounds one read of an observer. Some store clients wait for as long as
// their connection seems open, which on a link that drops packets is many minutes.
const callTimeout = 10 * time.Second

// An Election is a name that one of many candidates leads. It is safe to share.
type Election struct {
	c    *pawl.Client
	name string
	lock string
	opts []pawl.Option
	err  error // the name is invalid
}

// New returns the election called name. The options are those of a lock: WithTTL
// says how long candidates wait for a dead leader. An invalid name or option is
// reported by the first call.
func New(c *pawl.Client, name string, opts ...pawl.Option) *Election {
	e := &Election{c: c, name: name, opts: opts}
	e.lock, e.err = recipe.Name("election", name)
	return e
}

// LockName returns the name of the lock that the leader holds and the candidates
// wait for, as [pawl.Client.List] shows it; "" if the election's name is invalid.
func (e *Election) LockName() string { return e.lock }

// NameOfLock returns the election that a lock belongs to. Of an election whose name is
// too long for a lock's, that is the lock's own name: the election's is only in its hash.
func NameOfLock(lock string) (name string, ok bool) {
	if strings.HasPrefix(lock, longLocks) {
		return lock, true
	}
	if name, ok = strings.CutPrefix(lock, locks); !ok {
		return "", false
	}
	return name, name != ""
}

// The locks of elections begin with these: with the election's name, or its hash.
var (
	locks     = strings.TrimSuffix(New(nil, "x").LockName(), "x")
	longLocks = path.Dir(New(nil, strings.Repeat("x", pawl.MaxName)).LockName()) + "/"
)

// A Leadership is a lease: its Context ends when it is lost or resigned, and its
// Token is larger than that of every leader before.
type Leadership struct{ *pawl.Lease }

// Resign ends the leadership; the next in line leads. ErrLost says that it had
// been lost before.
func (l *Leadership) Resign() error { return l.Unlock() }

// Campaign stands in line and returns when this candidate leads. Others see value,
// such as an address, while it does. ctx bounds the wait, never the leadership.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	if err := e.check(value); err != nil {
		return nil, e.fail("campaign in", err)
	}
	// Fair: every leadership is a claim of its own, which observers can tell apart.
	opts := slices.Concat(e.opts, []pawl.Option{pawl.WithNote(value), pawl.WithFair()})
	lease, err := e.c.Mutex(e.lock, opts...).Lock(ctx)
	if err != nil {
		return nil, e.fail("campaign in", err)
	}
	return &Leadership{lease}, nil
}

func (e *Election) fail(op string, err error) error { return &Error{op, e.name, err} }

func (e *Election) check(value string) error {
	switch {
	case e.err != nil:
		return e.err
	case len(value) > MaxValue:
		return fmt.Errorf("%w: value of %d bytes, at most %d", pawl.ErrInvalid, len(value), MaxValue)
	case !utf8.ValidString(value):
		return fmt.Errorf("%w: value is not valid UTF-8", pawl.ErrInvalid)
	}
	return nil
}

// A Leader is the candidate that leads, as others see it. The zero Leader is a vacancy.
type Leader struct {
	Value string
	Token uint64 // of its leadership
	ID    string // of its claim in the store
}

// Vacant reports whether nobody leads.
func (l Leader) Vacant() bool { return l.ID == "" }

// Leader returns the candidate that leads, or ErrNoLeader.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, err := e.look(ctx)
	if err == nil && l.Vacant() {
		err = ErrNoLeader
	}
	if err != nil {
		return Leader{}, e.fail("leader of", err)
	}
	return l, nil
}

func (e *Election) look(ctx context.Context) (Leader, error) {
	if e.err != nil {
		return Leader{}, e.err
	}
	line, err := e.c.Line(ctx, e.lock)
	if err != nil {
		return Leader{}, err
	}
	for _, x := range line {
		if x.Held {
			return Leader{Value: x.Note, Token: x.Fence << 8, ID: x.ID}, nil
		}
	}
	return Leader{}, nil
}

// Observe yields the present leader, and then every change that is seen, until ctx
// ends. Between two leaders there is always a vacancy, also where the next in line
// followed at once; leaders come in the order of their tokens. A leadership of
// less than a quarter of a second may not be seen. An error is yielded and does
// not end the observation, except for an invalid name and [pawl.ErrClosed]. A store
// that does not answer for ten seconds is [pawl.ErrUnreachable]: the leader that was
// yielded last may not lead any more.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var departures <-chan struct{}
		stop := func() {}
		defer func() { stop() }()
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		seen := observed{}
		for ctx.Err() == nil {
			l, err := e.lookWithTimeout(ctx)
			if err == nil && !seen.begun { // the store answers
				departures, stop = e.departures(ctx)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(Leader{}, e.fail("observe", err)) || e.err != nil || errors.Is(err, pawl.ErrClosed) {
					return
				}
			case !seen.show(l, yield):
				return
			}
			select {
			case _, open := <-departures:
				if !open {
					departures = nil
				}
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

// lookWithTimeout reads the line once.
func (e *Election) lookWithTimeout(ctx context.Context) (Leader, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := e.look(call)
	if err != nil && call.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer for %v", pawl.ErrUnreachable, callTimeout)
	}
	return l, err
}

// departures receives when a claim has left the line, where the engine can tell.
func (e *Election) departures(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if w, ok := e.c.Engine().(driver.Watcher); ok && e.err == nil {
		late := time.AfterFunc(callTimeout, cancel)
		defer late.Stop()
		if ch, err := w.Watch(ctx, e.lock); err == nil {
			return ch, func() {
				cancel()
				for range ch { // the engine closes it
				}
			}
		}
	}
	return nil, cancel
}

// observed is what an observer has been shown.
type observed struct {
	last  Leader
	begun bool
	high  uint64 // the largest token shown
}

// show yields l if it is new. A leader with a smaller token than one that was shown
// comes from a replica that lags: shown, it would seem to have won.
func (v *observed) show(l Leader, yield func(Leader, error) bool) bool {
	if v.begun && l == v.last || !l.Vacant() && l.Token < v.high {
		return true
	}
	if v.begun && !l.Vacant() && !v.last.Vacant() && !yield(Leader{}, nil) {
		return false
	}
	v.begun, v.last, v.high = true, l, max(v.high, l.Token)
	return yield(l, nil)
}
