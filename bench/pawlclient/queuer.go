package ours

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/contest"
)

// queuer is a client whose calls each stand in line in the store.
type queuer struct {
	contest.Locker
	waits chan struct{}
}

func (q *queuer) Waits() <-chan struct{} { return q.waits }

// Queuer returns what opens, by URL, clients whose calls each stand in line in the
// store, also those for one name, and that tell who waits.
func Queuer(url string, opts ...pawl.Option) func(context.Context) (contest.Queuer, error) {
	return func(ctx context.Context) (contest.Queuer, error) {
		q := &queuer{waits: make(chan struct{}, 1<<14)} // more than ever wait at once
		tell := pawl.ObserverFunc(func(e pawl.Event) {
			if e.Kind == pawl.Waiting {
				select {
				case q.waits <- struct{}{}:
				default: // nobody wants to know
				}
			}
		})
		var err error
		q.Locker, err = Open(url, append(opts, pawl.WithFair(), pawl.WithObserver(tell))...)(ctx)
		return q, err
	}
}

// Scale is the row of what n locks cost, for a store that pawl opens by URL.
func Scale(url string, on contest.Store, n int) contest.Row {
	crews := contest.ScaleCrews(n)
	row := contest.Scale(Queuer(url, pawl.WithTTL(contest.ScaleTTL)), on, crews...)
	row.Length, row.Bounds = contest.ScaleLength, contest.ScaleBounds(crews, 1.25)
	return row
}
