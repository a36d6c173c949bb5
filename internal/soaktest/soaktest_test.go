package soaktest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/memlock"
)

// Two stores that know nothing of each other grant the same units twice, with the same
// tokens.
func TestTwoStoresAreReported(t *testing.T) {
	t.Parallel()
	err := testserver.RunOutsideTest(func(fake testing.TB) {
		contendOn(t, newAudit(fake), memlock.New(), memlock.New())
	})
	for _, fault := range []string{"units are held", "token"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q was not reported: %v", fault, err)
		}
	}
}

func TestOneStoreWithEvictionsHasNoFaults(t *testing.T) {
	t.Parallel()
	e := memlock.New()
	contendOn(t, newAudit(t), e, e)
}

// A claim that its holder has lost without being told is reported.
func TestAnEvictionThatTheHolderIsNotToldOfIsReported(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New(), pawl.WithTTL(TTL))
	defer c.Close()
	l, err := c.Mutex("mutex0").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = testserver.RunOutsideTest(func(fake testing.TB) {
		a := newAudit(fake)
		a.enter(c, "mutex0", l, 1, 1)
		a.evictedNow(driver.Entry{Held: true, Fence: fenceOf(l)})
		a.evicted[fenceOf(l)] = time.Now().Add(-3 * TTL)
		a.leave("mutex0", l)
	})
	if err == nil || !strings.Contains(err.Error(), "not notified") {
		t.Errorf("not reported: %v", err)
	}
}

// contendOn has a client on each of the engines hold 20 times, while claims of the first
// are evicted.
func contendOn(t *testing.T, a *audit, engines ...driver.Engine) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var clients []*pawl.Client
	for i, e := range engines {
		c := pawl.New(e, pawl.WithTTL(TTL))
		clients = append(clients, c)
		for j := range 4 {
			work.Go(func() { a.contend(ctx, c, rand.New(rand.NewPCG(1, uint64(10*i+j)))) })
		}
	}
	work.Go(func() { a.evict(ctx, engines[0], rand.New(rand.NewPCG(1, 100))) })
	for range 20 {
		a.expectHolds(clients, recovery)
	}
	cancel()
	work.Wait()
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	a.report(engines[0])
}
