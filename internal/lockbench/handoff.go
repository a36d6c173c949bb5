package lockbench

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
)

// quiet is how long the second client has waited when the first gives back: links
// and processors are idle then, as in most waits.
const waitBefore = 10 * time.Millisecond

// handoff has one client give back, again and again, what the other waits for.
func handoff(ctx context.Context, r *runner) error {
	r.times = r.times[:1]
	if _, err := r.handOver(ctx); err != nil { // pays for connections and sessions
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

// A grant is what came of a wait.
type grant struct {
	at    time.Time
	lease *pawl.Lease
	err   error
}

// pass hands the name on once. Both have given it back when it returns.
func (r *runner) handOver(ctx context.Context) (time.Duration, error) {
	held, err := r.from.Mutex(r.prefix).Lock(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-r.waiting: // a wait that looked again had told of itself twice
	default:
	}
	wait, stop := context.WithCancel(ctx)
	defer stop()
	granted := make(chan grant, 1)
	go func() { // ends with wait at the latest, and is waited for
		lease, err := r.to.Mutex(r.prefix).Lock(wait)
		granted <- grant{time.Now(), lease, err}
	}()
	select {
	case <-r.waiting:
		await(ctx, time.After(waitBefore))
	case g := <-granted: // it could not even wait
		granted <- g
	case <-ctx.Done():
	}
	begun := time.Now()
	if err = held.Unlock(); err != nil {
		stop() // otherwise the wait may be a long one
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
