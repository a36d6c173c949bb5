package zklock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A waiter had no evict node when its eviction began, and has one when the eviction is
// carried out: it must be told, or it takes the next event for its turn.
func TestAWaiterIsToldOfAnEvictionThatBeganBeforeItsEvictNode(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	plain := connect(t, []string{oneServer(t)}, WithPath(path))
	holder, waiter := mutex(), mutex()
	a := open(t, plain, time.Minute)
	hold(t, a, holder)

	enters := newPauser(1, opCreate) // before it creates its evict node
	late := connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(enters.dial))
	s := open(t, late, time.Minute)
	entered := make(chan driver.Standing, 1)
	go func() {
		st, err := s.Enter(t.Context(), waiter)
		if err != nil {
			t.Errorf("Enter: %v", err)
		}
		entered <- st
	}()
	<-enters.stopped

	evicts := newPauser(3, opMulti, opDelete) // the first is a barrier, the second finds no evict node
	admin := connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(evicts.dial))
	evicted := make(chan error, 1)
	x := listed(t, plain, "job")[1]
	go func() { evicted <- admin.Evict(t.Context(), x) }()
	<-evicts.stopped
	close(enters.goOn)
	if st := <-entered; st.Held || st.Gone {
		t.Fatalf("Enter: %+v, not waiting", st)
	}
	close(evicts.goOn)
	if err := <-evicted; err != nil {
		t.Fatalf("Evict: %v", err)
	}
	leave(t, a, holder)
	if st, err := s.Await(t.Context(), waiter, driver.Standing{}); err != nil || !st.Gone {
		t.Errorf("an evicted waiter: %+v, %v, not Gone", st, err)
	}
}
