package drivertest

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// watchCases are about engines that tell of departures to those without a claim.
var watchCases = []lawCase{
	{name: "Watch tells of departures", law: 6, run: watchTells,
		why: "A quorum's waiters stand in no line: without the notice they would look again and again."},
	{name: "Watch ends with its ctx", law: 9, run: watchEnds,
		why: "The channel is closed when ctx ends, so that who reads it comes back."},
}

func (s *stage) watcher() (driver.Watcher, bool) {
	w, ok := s.engine.(driver.Watcher)
	if !ok {
		s.Log("the engine is no driver.Watcher")
	}
	return w, ok
}

func watchTells(s *stage) {
	w, ok := s.watcher()
	if !ok {
		return
	}
	a := s.join()
	c := s.claim()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	told, err := w.Watch(ctx, s.name)
	if err != nil {
		s.Fatalf("Watch: %v", err)
	}
	for range 3 {
		a.hold(c)
		for len(told) > 0 {
			<-told
		}
		left := time.Now()
		a.leave(c)
		select {
		case _, open := <-told:
			if !open {
				s.Fatal("the channel was closed while ctx is alive")
			}
		case <-time.After(soon):
			s.Fatalf("nobody was told of a departure %v ago", time.Since(left))
		}
		c = next(c)
	}
}

func watchEnds(s *stage) {
	w, ok := s.watcher()
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	told, err := w.Watch(ctx, s.name)
	if err != nil {
		cancel()
		s.Fatalf("Watch: %v", err)
	}
	cancel()
	timeout := time.After(soon)
	for open := true; open; {
		select {
		case _, open = <-told:
		case <-timeout:
			s.Fatal("the channel is not closed though ctx has ended")
		}
	}
	if s.h.Clean == nil {
		return
	}
	// What the watch has in the store is taken back behind the reader's back.
	for start := time.Now(); s.h.Clean(s.T, s.store) != nil && time.Since(start) < soon; {
		time.Sleep(5 * time.Millisecond)
	}
}
