package zklock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// maxParallel is how many calls one task has under way at a time.
const maxParallel = 32

// forEach runs n calls, several at a time, waits for all and returns their errors. None
// begins after one has failed.
func forEach(ctx context.Context, n int, call func(ctx context.Context, i int) error) error {
	return forEachOf(ctx, n, maxParallel, call)
}

// forEachOf is forEach with another number of calls at a time.
func forEachOf(ctx context.Context, n, parallel int, call func(ctx context.Context, i int) error) error {
	if n == 1 {
		return call(ctx, 0)
	}
	var (
		next   atomic.Int64
		failed atomic.Bool
		wg     sync.WaitGroup
		errs   = make([]error, n)
	)
	for range min(n, parallel) {
		wg.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = call(ctx, i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return driver.Join(errs...)
}
