package zklock

import (
	"context"
	"errors"
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

// A node that was deleted by hand is noticed by the next beat.
func TestANodeDeletedByHandIsNoticedByTheNextBeat(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	held, kept := mutex(), mutex()
	kept.Name = "kept"
	hold(t, s, held)
	hold(t, s, kept)
	live, out := []driver.Claim{held, kept}, make([]driver.Standing, 2)
	for i := range 2 {
		if err := s.Beat(t.Context(), live, out); err != nil {
			t.Fatal(err)
		}
		if gone := i == 1; out[0].Gone != gone || out[1].Gone {
			t.Fatalf("beat %d: %+v", i, out)
		}
		if i == 0 {
			s.mu.Lock()
			node := e.linePath("job") + "/" + s.claims[held.ID].node
			s.mu.Unlock()
			if err := raw(t).Delete(node, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Leave(t.Context(), held); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Leave: %v", err)
	}
}

// A foreign write into the node of a waiter: the claim behind it takes that for its
// turn, and finds out at its next beat.
func TestAGrantByAForeignWriteIsTakenBackByTheNextBeat(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	a, b, c := mutex(), mutex(), mutex()
	hold(t, s, a)
	stand(t, s, b)
	stand(t, s, c)
	s.mu.Lock()
	node := e.linePath("job") + "/" + s.claims[b.ID].node
	s.mu.Unlock()
	if _, err := raw(t).Set(node, []byte("by hand"), -1); err != nil {
		t.Fatal(err)
	}
	turn(t, s, c)
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Gone {
		t.Errorf("Beat: %+v, %v; it never held", out[0], err)
	}
}

func TestAnEvictedWaiterDoesNotTakeTheNextEventForItsTurn(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, other := connect(t, []string{oneServer(t)}, WithPath(path)), connect(t, []string{oneServer(t)}, WithPath(path))
	s := open(t, e, time.Minute)
	for i := range 20 {
		limit := 1 + i%2 // one is in the way, or two together
		var holders []driver.Claim
		for range limit {
			holders = append(holders, claim(1, limit))
			hold(t, s, holders[len(holders)-1])
		}
		waiter := claim(1, limit)
		stand(t, s, waiter)
		if err := other.Evict(t.Context(), listed(t, other, "job")[limit]); err != nil {
			t.Fatal(err)
		}
		for j, c := range holders {
			leave(t, s, c)
			if j > 0 {
				continue
			}
			st, err := s.Await(t.Context(), waiter, driver.Standing{})
			if err != nil || !st.Gone {
				t.Fatalf("an evicted waiter behind %d: %+v, %v, not Gone", limit, st, err)
			}
		}
	}
}

// An Enter is given up while the request for its evict node is on the way, and its session
// is closed: the evict node must not outlive it on a connection that goes on.
func TestAnEvictNodeThatIsCreatedLateDoesNotOutliveItsSession(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	plain := connect(t, []string{oneServer(t)}, WithPath(path))
	hold(t, open(t, plain, time.Minute), mutex())
	p, hook := newPauser(1, opCreate), NewHook()
	hook.Dial = p.dial
	e, err := New(user(t, oneServer(t), 10*time.Second, hook), hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := open(t, e, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	entered, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Enter(ctx, mutex())
		entered <- err
	}()
	<-p.stopped
	cancel()
	if err := <-entered; !errors.Is(err, context.Canceled) {
		t.Errorf("Enter: %v", err)
	}
	go func() { closed <- s.Close(t.Context()) }()
	<-s.Lost() // it is being closed
	close(p.goOn)
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	left, err := plain.tree(t.Context(), plain.evictions)
	if err != nil || len(left) != 1 {
		t.Errorf("below %s is %v, %v, not nothing", plain.evictions, left, err)
	}
}
