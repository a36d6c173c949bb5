package drivertest

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// watchCases watch departures without a claim, on engines that are a
// driver.Watcher.
var watchCases = []lawCase{
	{name: "Watch tells of departures", law: 6, run: watchTells,
		why: "A quorum's waiters stand in no line: without the notice they would have to poll."},
	{name: "Watch ends with its ctx", law: 9, run: watchEnds,
		why: "The channel is closed when ctx ends, so that its reader returns."},
}

func (f *fixture) watcher() (driver.Watcher, bool) {
	w, ok := f.engine.(driver.Watcher)
	if !ok {
		f.Log("the engine is no driver.Watcher")
	}
	return w, ok
}

func watchTells(f *fixture) {
	w, ok := f.watcher()
	if !ok {
		return
	}
	a := f.open()
	c := f.claim()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	told, err := w.Watch(ctx, f.name)
	if err != nil {
		f.Fatalf("Watch: %v", err)
	}
	for range 3 {
		a.mustHold(c)
		for len(told) > 0 {
			<-told
		}
		left := time.Now()
		a.mustLeave(c)
		select {
		case _, open := <-told:
			if !open {
				f.Fatal("the channel was closed while ctx is alive")
			}
		case <-time.After(soon):
			f.Fatalf("no notice of a departure %v ago", time.Since(left))
		}
		c = nextTry(c)
	}
}

func watchEnds(f *fixture) {
	w, ok := f.watcher()
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	told, err := w.Watch(ctx, f.name)
	if err != nil {
		cancel()
		f.Fatalf("Watch: %v", err)
	}
	cancel()
	timeout := time.After(soon)
	for open := true; open; {
		select {
		case _, open = <-told:
		case <-timeout:
			f.Fatal("the channel is not closed though ctx has ended")
		}
	}
	if f.h.Clean == nil {
		return
	}
	// The engine removes the watch's data from the store asynchronously.
	for start := time.Now(); f.h.Clean(f.T, f.store) != nil && time.Since(start) < soon; {
		time.Sleep(5 * time.Millisecond)
	}
}
