package lockbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// A runner runs one kind of work.
type runner struct {
	from, to *pawl.Client
	prefix   string // of every name
	length   time.Duration
	waiting  chan struct{} // receives when client to waits in line
	times    []Histogram   // by goroutine
	took     time.Duration
}

func (r *runner) result(k Kind) Result {
	res := Result{Kind: k, Took: r.took, Fewest: r.times[0].N()}
	for i := range r.times {
		res.Times.Merge(&r.times[i])
		res.Fewest = min(res.Fewest, r.times[i].N())
		res.Most = max(res.Most, r.times[i].N())
	}
	return res
}

// Observe reports a wait. One unread report is enough.
func (r *runner) Observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		select {
		case r.waiting <- struct{}{}:
		default:
		}
	}
}

// Direct marks r as an observer that never blocks.
func (*runner) Direct() {}

func apart(ctx context.Context, r *runner) error {
	return r.repeat(ctx, func(i int) string { return fmt.Sprintf("%s-%d", r.prefix, i) })
}

func together(ctx context.Context, r *runner) error {
	return r.repeat(ctx, func(int) string { return r.prefix })
}

// repeat makes every goroutine lock and unlock its name until the time is over and
// at least one has completed. Pending attempts are cancelled or released then, and
// not counted.
func (r *runner) repeat(ctx context.Context, name func(i int) string) error {
	// The first lock sets up the connection and the session.
	if _, err := lockUnlock(ctx, r.from.Mutex(name(0))); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	var once sync.Once
	counted := make(chan struct{}) // closed when one lock was counted
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
				errs[i] = nil // the regular end of the work
			}
			stop() // one failure ends all goroutines
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

// firstError returns only the first error: a thousand goroutines that fail for the
// same reason make one line.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// lockUnlock takes a lock and releases it.
func lockUnlock(ctx context.Context, m *pawl.Mutex) (time.Duration, error) {
	begun := time.Now()
	lease, err := m.Lock(ctx)
	if err != nil {
		return 0, err
	}
	err = lease.Unlock()
	return time.Since(begun), err
}
