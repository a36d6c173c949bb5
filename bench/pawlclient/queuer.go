package pawlclient

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
)

// queuer is a client whose calls all wait in the store.
type queuer struct {
	compare.Locker
	waits chan struct{}
}

func (q *queuer) Waits() <-chan struct{} { return q.waits }

// Observe implements pawl.DirectObserver.
func (q *queuer) Observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		select {
		case q.waits <- struct{}{}:
		default: // nobody is listening
		}
	}
}

// Direct marks q as an observer that never blocks.
func (*queuer) Direct() {}

// Queuer returns a function that opens clients by URL whose calls all wait in the
// store, even those for the same name, and that report waits.
func Queuer(url string, opts ...pawl.Option) func(context.Context) (compare.Queuer, error) {
	return func(ctx context.Context) (compare.Queuer, error) {
		q := &queuer{waits: make(chan struct{}, 1<<14)} // more than can wait at once
		var err error
		q.Locker, err = Open(url, append(opts, pawl.WithFair(), pawl.WithObserver(q))...)(ctx)
		return q, err
	}
}

// Scale returns the row on the cost of n locks, for a store that pawl opens by URL.
func Scale(url string, on compare.Store, n int) compare.Row {
	crews := compare.ScaleLoads(n)
	row := compare.Scale(Queuer(url, pawl.WithTTL(compare.ScaleTTL)), on, crews...)
	row.Length, row.Bounds = compare.ScaleLength, compare.ScaleBounds(crews, 1.25)
	return row
}
