package driverkit_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driverkit"
)

func TestWatchersAreToldOfDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		w := driverkit.Watchers{
			First: func(name string) { calls = append(calls, "first "+name) },
			Last:  func(name string) { calls = append(calls, "last "+name) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		one, two := w.Watch(ctx, "n", 5), w.Watch(t.Context(), "n", 6)
		w.Notify("m")
		w.Departed("n", 5)
		w.Departed("n", 6)
		w.Departed("n", 6)
		if len(one) != 1 || len(two) != 1 { // one of 5 was told of 6; two of 5, which is another number
			t.Errorf("%d and %d notices", len(one), len(two))
		}
		w.Notify("n")
		if len(one) != 1 || len(two) != 1 {
			t.Errorf("%d and %d notices: several departures are told as one", len(one), len(two))
		}
		cancel()
		synctest.Wait()
		<-one
		if _, open := <-one; open {
			t.Error("open after the end of ctx")
		}
		if !slices.Equal(w.Names(), []string{"n"}) || !slices.Equal(calls, []string{"first n"}) {
			t.Errorf("names %v, calls %v", w.Names(), calls)
		}
		ctx, cancel = context.WithCancel(t.Context())
		w.Watch(ctx, "m", 0)
		cancel()
		synctest.Wait()
		if !slices.Equal(calls, []string{"first n", "first m", "last m"}) {
			t.Errorf("calls %v", calls)
		}
	})
}
