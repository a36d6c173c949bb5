package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

const confirmTTL = 6 * time.Second // replicas have a sixth of it to confirm

// The holder dies, and the waiter finds its turn by looking. While a slow replica confirms
// the grant, a beat finds the claim held. The waiter must get its lock nevertheless.
func TestABeatWhileReplicasConfirmDoesNotLoseTheTurn(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	link := faultproxy.New(t, master.Addr())
	testserver.RedisReplica(t, link.Addr())
	link.Delay(faultproxy.Both, 200*time.Millisecond)
	dies := faultproxy.New(t, master.Addr())
	holder := open(t, "redis://"+dies.Addr(), pawl.WithTTL(confirmTTL))
	waiter := open(t, "redis://"+master.Addr()+"?wait=1&wait-timeout=2s", pawl.WithTTL(confirmTTL))
	lock(t, holder.Mutex("name"))
	dies.BlackHole(faultproxy.Both)
	ctx, cancel := context.WithTimeout(t.Context(), 10*confirmTTL)
	defer cancel()
	l, err := waiter.Mutex("name").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, l)
	mend(dies)
}

// A grant that no replica confirms is given back, although beats prolong it meanwhile.
func TestAPublishedGrantThatNoReplicaHasIsGivenBack(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	link := faultproxy.New(t, master.Addr())
	testserver.RedisReplica(t, link.Addr())
	at := newConsole(t, master.Addr())
	holder := open(t, "redis://"+master.Addr(), pawl.WithTTL(confirmTTL))
	waiter := open(t, "redis://"+master.Addr()+"?wait=1&wait-timeout=2s", pawl.WithTTL(confirmTTL))
	l := lock(t, holder.Mutex("name"))
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*confirmTTL)
	defer cancel()
	go func() { // waited for below
		_, err := waiter.Mutex("name").Lock(ctx)
		got <- err
	}()
	until(t, 5*time.Second, "in line", func() bool { return at.do("EXISTS", "pawl:\x01hname") == "1" })
	link.BlackHole(faultproxy.Both)
	unlock(t, l)
	if err := <-got; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that no replica has: %v, want an error that it was given back", err)
	}
	other := open(t, "redis://"+master.Addr(), pawl.WithTTL(confirmTTL))
	unlock(t, lock(t, other.Mutex("name")))
}
