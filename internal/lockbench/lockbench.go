// Package lockbench measures a store by the locks that are taken in it.
//
// It does not compare: a figure is that of one store on one day, with one machine
// and one network between. For pawl beside other locks see the module bench.
package lockbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// A Kind is one kind of work.
type Kind struct {
	Name string // one word
	Does string // one line
	// Of is what one time is that of.
	Of         string
	Goroutines int
	Clients    int
	run        func(ctx context.Context, r *runner) error
}

// Kinds returns all kinds of work, those of many goroutines with n.
func Kinds(n int) []Kind {
	return []Kind{
		{"alone", "1 goroutine, nobody else wants the name", "a lock with its unlock", 1, 1, apart},
		{"apart", fmt.Sprintf("%d goroutines of one client, each with a name of its own", n), "a lock with its unlock", n, 1, apart},
		{"together", fmt.Sprintf("%d goroutines of one client, all want one name", n), "a wait, a lock and its unlock", n, 1, together},
		{"handoff", "2 clients, one waits for what the other gives back", "from before the unlock until the other has it", 2, 2, handoff},
	}
}

// A Result is what came of one kind of work.
type Result struct {
	Kind
	Took         time.Duration
	Times        Histogram
	Fewest, Most int // turns of a goroutine
}

// PerSecond returns how often the work was done in a second; 0 where most of the time
// was spent in pauses, and it says nothing.
func (r *Result) PerSecond() float64 {
	if r.Took <= 0 || r.Clients > 1 {
		return 0
	}
	return float64(r.Times.N()) / r.Took.Seconds()
}

// A rig is what one kind of work runs on.
type runner struct {
	from, to *pawl.Client
	prefix   string // of every name
	length   time.Duration
	waiting  chan struct{} // receives when the client to waits in line
	times    []Histogram   // by goroutine
	took     time.Duration
}

// Run does one kind of work for about the given time, on clients that open makes and
// Run closes, and on names that begin with prefix. When ctx ends before, that is the
// error. Nothing is held when it returns, as far as the store could be told.
func Run(ctx context.Context, k Kind, open func(opts ...pawl.Option) (*pawl.Client, error), prefix string, length time.Duration) (res Result, err error) {
	r := &runner{prefix: prefix + k.Name, length: length, waiting: make(chan struct{}, 1), times: make([]Histogram, k.Goroutines)}
	if r.from, err = open(); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, r.from.Close()) }()
	if k.Clients > 1 {
		if r.to, err = open(pawl.WithObserver(pawl.ObserverFunc(r.observe))); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, r.to.Close()) }()
	}
	// A store that falls silent would be waited for: a lock is worth it, this is not.
	ctx, stop := context.WithTimeoutCause(ctx, length+extraTime, errSilent)
	defer stop()
	if err := k.run(ctx, r); err != nil {
		return res, err
	}
	return r.result(k), nil
}

// patience is how much longer than asked a kind of work may take.
const extraTime = 15 * time.Second

var errSilent = fmt.Errorf("%w: the store does not answer any more", pawl.ErrUnreachable)

func (r *runner) result(k Kind) Result {
	res := Result{Kind: k, Took: r.took, Fewest: r.times[0].N()}
	for i := range r.times {
		res.Times.Merge(&r.times[i])
		res.Fewest = min(res.Fewest, r.times[i].N())
		res.Most = max(res.Most, r.times[i].N())
	}
	return res
}

// observe tells of a wait; one that nobody has heard of yet is enough.
func (r *runner) observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		select {
		case r.waiting <- struct{}{}:
		default:
		}
	}
}

func apart(ctx context.Context, r *runner) error {
	return r.repeat(ctx, func(i int) string { return fmt.Sprintf("%s-%d", r.prefix, i) })
}

func together(ctx context.Context, r *runner) error {
	return r.repeat(ctx, func(int) string { return r.prefix })
}

// crowd has every goroutine take its name again and again until the time is over, and
// at least one has had a turn. Turns under way then are given up, or given back, and
// not counted.
func (r *runner) repeat(ctx context.Context, name func(i int) string) error {
	// The first turn pays for the connection and the session.
	if _, err := lockUnlock(ctx, r.from.Mutex(name(0))); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	var once sync.Once
	counted := make(chan struct{}) // closed when one turn was counted
	errs := make([]error, len(r.times))
	begun := time.Now()
	var group sync.WaitGroup
	for i := range r.times {
		group.Go(func() {
			m := r.from.Mutex(name(i))
			for {
				took, err := lockUnlock(work, m)
				if err != nil {
					errs[i] = err
					break
				}
				if work.Err() == nil {
					r.times[i].Add(took)
					once.Do(func() { close(counted) })
				}
			}
			if work.Err() != nil && errors.Is(errs[i], work.Err()) {
				errs[i] = nil // only the end of the work
			}
			stop() // one that fails ends it for all
		})
	}
	await(work, time.After(r.length))
	await(work, counted)
	r.took = time.Since(begun)
	stop()
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return firstError(errs)
}

func await[T any](ctx context.Context, event <-chan T) {
	select {
	case <-event:
	case <-ctx.Done():
	}
}

// failure returns the first error alone: a thousand goroutines that failed for one
// reason are one line.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// turn takes a lock and gives it back.
func lockUnlock(ctx context.Context, m *pawl.Mutex) (time.Duration, error) {
	begun := time.Now()
	lease, err := m.Lock(ctx)
	if err != nil {
		return 0, err
	}
	err = lease.Unlock()
	return time.Since(begun), err
}
