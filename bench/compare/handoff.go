package contest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Timer is a Locker that is none, and knows itself how to take the time of one
// handoff after a pause: a PING is the least that a round trip takes after a pause.
type Timer interface {
	Time(ctx context.Context, pause time.Duration) (time.Duration, error)
}

// Handoff is one client that gives back the name another client waits for. The time
// is from just before the one's unlock until the other's lock has returned. Before
// it all is quiet for the pause, so that links and processors are idle.
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
			return &relay{from: from, to: to, pause: pause}, nil
		},
	}
}

// A relay is two clients that hand a name to each other.
type relay struct {
	from, to Locker
	pause    time.Duration
}

func (r *relay) Close() error { return errors.Join(r.from.Close(), r.to.Close()) }

func (r *relay) Round(ctx context.Context, length time.Duration) ([]float64, error) {
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

func (r *relay) handoff(ctx context.Context) (time.Duration, error) {
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
	go func() { // ends with ctx at the latest, and is waited for
		unlock, err := r.to.Lock(ctx, name)
		granted <- grant{time.Now(), unlock, err}
	}()
	time.Sleep(r.pause) // no contender tells when it waits
	begun := time.Now()
	err = unlock()
	g := <-granted
	if err := errors.Join(err, g.err); err != nil {
		return 0, err
	}
	return g.at.Sub(begun), g.unlock()
}
