package lockbench

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
)

// waitBefore is how long the second client has been waiting when the first one
// unlocks: connections and processors are idle then, as in most real waits.
const waitBefore = 10 * time.Millisecond

// handoff repeatedly unlocks with one client what the other waits for.
func handoff(ctx context.Context, r *runner) error {
	r.times = r.times[:1]
	if _, err := r.handOver(ctx); err != nil { // sets up connections and sessions
		return err
	}
	begun := time.Now()
	for r.times[0].N() == 0 || time.Since(begun) < r.length {
		took, err := r.handOver(ctx)
		if err != nil {
			return err
		}
		r.times[0].Add(took)
	}
	r.took = time.Since(begun)
	return nil
}

// A grant is the result of a wait.
type grant struct {
	at    time.Time
	lease *pawl.Lease
	err   error
}

// handOver hands the lock over once. Neither client holds it afterwards.
func (r *runner) handOver(ctx context.Context) (time.Duration, error) {
	held, err := r.from.Mutex(r.prefix).Lock(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-r.waiting: // a wait that polled reported itself twice
	default:
	}
	wait, stop := context.WithCancel(ctx)
	defer stop()
	granted := make(chan grant, 1)
	go func() { // ends with wait at the latest; received below
		lease, err := r.to.Mutex(r.prefix).Lock(wait)
		granted <- grant{time.Now(), lease, err}
	}()
	select {
	case <-r.waiting:
		await(ctx, time.After(waitBefore))
	case g := <-granted: // it failed before it could wait
		granted <- g
	case <-ctx.Done():
	}
	begun := time.Now()
	if err = held.Unlock(); err != nil {
		stop() // otherwise the wait could take long
	}
	g := <-granted
	if g.lease != nil {
		err = errors.Join(err, g.lease.Unlock())
	}
	if cause := context.Cause(ctx); cause != nil {
		return 0, cause
	}
	return g.at.Sub(begun), errors.Join(err, g.err)
}
