package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Timer measures one handoff after a pause itself, instead of being a Locker: for
// example a PING, which is the minimum of a round trip after a pause.
type Timer interface {
	Time(ctx context.Context, pause time.Duration) (time.Duration, error)
}

// Handoff measures two clients, of which one unlocks the name that the other waits
// for: from just before the unlock until the other's lock has returned. Before
// that, everything is idle for the pause, connections and processors included.
func Handoff(pause time.Duration) Work {
	return Work{
		Name:  "handoff",
		Does:  fmt.Sprintf("from unlock to lock between two clients, the second has waited %v", pause),
		Units: []Unit{{Name: "p50-µs", Fewer: true}, {Name: "p99-µs", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			from, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			to, err := c.Open(ctx)
			if err != nil {
				return nil, errors.Join(err, from.Close())
			}
			return &handoffPair{from: from, to: to, pause: pause}, nil
		},
	}
}

// A handoffPair is two clients that hand a name to each other.
type handoffPair struct {
	from, to Locker
	pause    time.Duration
}

func (r *handoffPair) Close() error { return errors.Join(r.from.Close(), r.to.Close()) }

func (r *handoffPair) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var times []float64
	for begun := time.Now(); len(times) == 0 || time.Since(begun) < length; {
		took, err := r.handoff(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, float64(took)/float64(time.Microsecond))
	}
	return quantiles(times), nil
}

func (r *handoffPair) handoff(ctx context.Context) (time.Duration, error) {
	if t, ok := r.from.(Timer); ok {
		return t.Time(ctx, r.pause)
	}
	const name = "bench/handoff"
	unlock, err := r.from.Lock(ctx, name)
	if err != nil {
		return 0, err
	}
	type grant struct {
		at     time.Time
		unlock func() error
		err    error
	}
	granted := make(chan grant, 1)
	go func() { // ends with ctx at the latest; received below
		unlock, err := r.to.Lock(ctx, name)
		granted <- grant{time.Now(), unlock, err}
	}()
	time.Sleep(r.pause) // contenders do not report when they wait
	begun := time.Now()
	err = unlock()
	g := <-granted
	if err := errors.Join(err, g.err); err != nil {
		return 0, err
	}
	return g.at.Sub(begun), g.unlock()
}
