package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func TestAMinorityThatDoesNotAnswerCostsNoTime(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // long, for a loaded machine
	f := newCluster(t, 5, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for holes := 1; holes <= 2; holes++ {
		f.proxies[holes-1].BlackHole(faultproxy.Both)
		var locked, back []time.Duration
		for range 11 {
			start := time.Now()
			l := lock(t, c, "name")
			locked = append(locked, time.Since(start))
			unlock(t, l)
			back = append(back, time.Since(start))
		}
		slices.Sort(locked)
		slices.Sort(back)
		if locked[5] > ttl/10 || back[5] > ttl/5 { // the median: a machine may stall once, waiting for a silent node happens each time
			t.Errorf("with %d of 5 silent: locked after %v, given back after %v", holes, locked, back)
		}
		l := lock(t, c, "renewed")
		for range 2 {
			was := l.Deadline()
			until(t, 2*ttl, fmt.Sprintf("renewed with %d of 5 silent", holes), func() bool { return l.Deadline().Sub(was) > ttl/10 || l.Err() != nil })
		}
		unlock(t, l) // fails if it was lost
	}
	// A client that is opened now must not wait for them either.
	stalltest.Within(t, ttl/2, "opened and locked beside two silent nodes", func() time.Duration {
		start := time.Now()
		unlock(t, lock(t, f.client(t, pawl.WithTTL(ttl)), "late"))
		return time.Since(start)
	})
}

func TestAGrantThatTookLongerThanItsLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for _, p := range f.proxies[:2] {
		p.Delay(faultproxy.ToClient, ttl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
	defer cancel()
	if l, err := c.Mutex("name").Lock(ctx); err == nil {
		t.Errorf("locked with %v left by answers that took as long as the lease lives", time.Until(l.Deadline()))
	}
	for _, p := range f.proxies {
		p.Heal()
	}
	unlock(t, lock(t, f.client(t, pawl.WithTTL(ttl)), "name"))
}

// Of four nodes each rival gets two, again and again.
func TestATieOfFourEnds(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 4, shortMaxTTL)
	const rivals, rounds = 4, 10
	done := make(chan error, rivals)
	var inside atomic.Pointer[pawl.Lease]
	for range rivals {
		c := f.client(t, pawl.WithTTL(5*time.Second))
		go func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				l, err := c.Mutex("name").Lock(ctx)
				cancel()
				if err == nil {
					if other := inside.Swap(l); other != nil && other.Err() == nil && l.Err() == nil {
						t.Errorf("two hold the name, with tokens %d and %d", other.Fence(), l.Fence())
					}
					time.Sleep(time.Millisecond)
					inside.CompareAndSwap(l, nil)
					err = l.Unlock()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range rivals {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The answers of nodes are lost, their grants are not. The next try must not take its
// own grants for a rival's.
func TestOwnLeftoversDoNotBlockTheNextTry(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for _, p := range f.proxies[:2] {
		p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(request []byte) bool { return strings.Contains(string(request), "name") }))
	}
	start := time.Now()
	l := lock(t, c, "name")
	if took := time.Since(start); took > ttl/2+time.Second {
		t.Errorf("locked after %v: its own grant was in the way", took)
	}
	unlock(t, l)
	for i := range f.servers {
		until(t, ttl-time.Second, "given back everywhere, before it expires", func() bool {
			n, err := f.at(t, i, "EXISTS", f.key("name")).ToInt64()
			return err == nil && n == 0
		})
	}
}

// What a node grants late, after the majority was reached without it, is given back too.
func TestALateGrantIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 3, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(6*time.Second))
	unlock(t, lock(t, c, "warm"))
	f.proxies[2].Delay(faultproxy.ToServer, 300*time.Millisecond)
	l := lock(t, c, "name")
	unlock(t, l)
	f.proxies[2].Heal()
	time.Sleep(400 * time.Millisecond) // what was delayed has arrived by then
	until(t, 5*time.Second, "given back, before it expires", func() bool {
		n, err := f.at(t, 2, "EXISTS", f.key("name")).ToInt64()
		return err == nil && n == 0
	})
}

func TestANodeThatLostItsDataVotesOnlyAfterEveryOldLease(t *testing.T) {
	t.Parallel()
	for about, lose := range map[string]func(t *testing.T, f *cluster, i int){
		"restarted": func(_ *testing.T, f *cluster, i int) { f.servers[i].Kill(); f.servers[i].Restart() },
		"emptied": func(t *testing.T, f *cluster, i int) {
			if err := f.at(t, i, "FLUSHALL").Error(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			const ttl, maxTTL = 3 * time.Second, 4 * time.Second
			f := newOwnCluster(t, 3, "max-ttl=4s")
			c, rival := f.client(t, pawl.WithTTL(ttl), pawl.WithoutRenewal()), f.client(t, pawl.WithTTL(ttl))
			unlock(t, lock(t, c, "warm"))
			f.proxies[2].BlackHole(faultproxy.Both) // the holder has nodes 0 and 1
			l := lock(t, c, "name")
			f.proxies[2].Heal()
			before := l.Fence()
			lost := time.Now()
			lose(t, f, 1) // node 1 forgets the hold; 1 and 2 would be a majority
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			next, err := rival.Mutex("name").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if l.Err() == nil {
				t.Error("two hold the name")
			}
			if next.Fence() <= before {
				t.Errorf("token %d after %d", next.Fence(), before)
			}
			unlock(t, next)
			until(t, 30*time.Second, "voting again", func() bool { return f.votes(t, 1) })
			if silent := time.Since(lost); silent < maxTTL {
				t.Errorf("it votes again after %v", silent)
			}
			unlock(t, lock(t, rival, "name"))
		})
	}
}

// The hold is entered again at each node that comes back.
func TestAHoldOutlivesNodesThatAreLostOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	f := newOwnCluster(t, 3, "max-ttl=4s")
	c := f.client(t, pawl.WithTTL(ttl))
	l := lock(t, c, "name")
	for i := range f.servers {
		if err := f.at(t, i, "FLUSHALL").Error(); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "voting again", func() bool { return f.votes(t, i) || l.Err() != nil })
		until(t, 20*time.Second, "holding there again", func() bool {
			n, err := f.at(t, i, "EXISTS", f.key("name")).ToInt64()
			return err == nil && n == 1 || l.Err() != nil
		})
	}
	if err := l.Err(); err != nil {
		t.Errorf("lost: %v", err)
	}
	unlock(t, l)
}

func TestAForeignKeyOnAMinorityBlocksNoLock(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 3, shortMaxTTL)
	if err := f.at(t, 0, "SET", f.key("name"), "a foreign value").Error(); err != nil {
		t.Fatal(err)
	}
	c := f.client(t, pawl.WithTTL(5*time.Second))
	for range 5 {
		stalltest.Within(t, time.Second, "locked and given back beside a foreign key", func() time.Duration {
			start := time.Now()
			unlock(t, lock(t, c, "name"))
			return time.Since(start)
		})
	}
	if value, err := f.at(t, 0, "GET", f.key("name")).ToString(); err != nil || value != "a foreign value" {
		t.Errorf("the foreign key is now %q, %v", value, err)
	}
}

func TestALostMajorityIsReportedAndRecoveredFrom(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(ttl))
	l := lock(t, c, "name")
	start, stalls := time.Now(), stalltest.Start()
	for _, p := range f.proxies[:2] {
		p.Refuse()
		p.Reset()
	}
	select {
	case <-l.Context().Done():
	case <-time.After(30 * time.Second):
	}
	if took, lost := time.Since(start), stalls.End(); took > 2*ttl+lost {
		t.Errorf("the holder was notified after %v, of which the machine stalled for %v", took, lost)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	_, err := c.Mutex("other").TryLock(ctx)
	cancel()
	if !errors.Is(err, pawl.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a majority: %v", err)
	}
	for _, p := range f.proxies {
		p.Heal()
	}
	unlock(t, lock(t, c, "name"))
}
