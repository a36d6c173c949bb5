package redislock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

// An operator may remove the expiry of a hold. A waiter then polls it, as it polls a hold
// of another client without an expiry, but not in a busy loop.
func TestAHoldWithoutExpiryIsNotPolledInABusyLoop(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	holder, waiter := newParty(t, s.Addr(), "aa01", steady), newParty(t, s.Addr(), "bb02", time.Minute)
	if !holder.enter().Held {
		t.Fatal("a free name is not held")
	}
	if at.do("PERSIST", "pawl:"+holder.Name) != "1" {
		t.Fatal("the hold had no expiry")
	}
	back := waiter.wait(waiter.enter(), held)
	waiter.beat()
	const looked = time.Second
	began, before := time.Now(), at.evals()
	time.Sleep(looked)
	took, n := time.Since(began), at.evals()-before
	if most := int(2 * took / (100 * time.Millisecond)); n > most {
		t.Errorf("%d looks in %v", n, took)
	}
	at.do("DEL", "pawl:"+holder.Name)
	select {
	case <-back:
	case <-time.After(20 * time.Second):
		t.Error("it did not look when the hold had ended")
	}
}
