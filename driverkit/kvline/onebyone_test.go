package kvline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallsAboutOneNameFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o oneByOne
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				if err := o.begin(t.Context(), "name"); err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // the race detector sees two at a time
				time.Sleep(time.Second)
				o.end("name")
			})
			synctest.Wait()
		}
		if err := o.begin(t.Context(), "another"); err != nil {
			t.Error(err)
		}
		o.end("another")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := o.begin(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v while others wait", err)
		}
		all.Wait()
		for i, j := range order {
			if i != j {
				t.Errorf("in the order %v", order)
			}
		}
		if len(order) != 5 || len(o.byName) != 0 {
			t.Errorf("%v came, %d names are left", order, len(o.byName))
		}
	})
}
