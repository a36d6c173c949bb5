package redlock_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A delayed or duplicated request arrives after an operator has evicted the claim and
// another client has held the name.
func TestAnEnterThatArrivesAfterAnEvictionDoesNotReviveTheHold(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	for about, kind := range map[string]func(id, name string) driver.Claim{"exclusive": exclusive, "shared": reader} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			f := newOwnCluster(t, 3, shortMaxTTL) // it reads the servers' command statistics
			holder, delayed, rival := f.session(t, "holder", ttl), f.session(t, "holder", ttl), f.session(t, "rival", ttl)
			c := kind("aa", "name")
			first, err := holder.Enter(t.Context(), c)
			if err != nil || !first.Held {
				t.Fatal(first, err)
			}
			until(t, ttl, "held everywhere", func() bool { return f.holding(t, "name") == 3 })
			evict(t, f.engine(t), "name")
			next := exclusive("bb", "name")
			got, err := rival.Enter(t.Context(), next)
			if err != nil || !got.Held {
				t.Fatal(got, err)
			}
			until(t, ttl, "held everywhere", func() bool { return f.holding(t, "name") == 3 })
			if err := rival.Leave(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			until(t, ttl, "left everywhere", func() bool { return f.holding(t, "name") == 0 }) // a majority is enough for Leave
			if late, err := delayed.Enter(t.Context(), c); err != nil || !late.Held {          // the delayed request
				t.Fatal(late, err)
			}
			until(t, ttl, "arrived everywhere", func() bool { return f.holding(t, "name") == 3 })
			out := make([]driver.Standing, 1)
			if err := holder.Beat(t.Context(), []driver.Claim{c}, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Held || !out[0].Gone {
				t.Errorf("evicted, and another has held the name with token %d since: Beat returns %+v", got.Token, out[0])
			}
			until(t, ttl, "given back", func() bool { return f.holding(t, "name") == 0 })
			for i := range f.servers {
				if stats, err := f.at(t, i, "INFO", "commandstats").ToString(); err != nil || strings.Contains(stats, "cmdstat_scan:") {
					t.Errorf("server %d was scanned for one name, %v", i, err)
				}
			}
		})
	}
}

// A Leave without an answer is repeated after the claim was evicted. It must not end
// another client's hold, nor report success.
func TestARepeatedLeaveEndsNothingOfTheNextHolder(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	holder, rival := f.session(t, "holder", ttl), f.session(t, "rival", ttl)
	c := exclusive("aa", "name")
	if st, err := holder.Enter(t.Context(), c); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	until(t, ttl, "held everywhere", func() bool { return f.holding(t, "name") == 3 })
	evict(t, f.engine(t), "name")
	next := exclusive("bb", "name")
	if st, err := rival.Enter(t.Context(), next); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	until(t, ttl, "held everywhere", func() bool { return f.holding(t, "name") == 3 })
	for _, p := range f.proxies { // every reply: one to the rival may still be in flight
		p.SwallowReplies(math.MaxInt, faultproxy.ThenCut())
	}
	err := holder.Leave(t.Context(), c)
	if err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("no server has answered, and Leave returns %v", err)
	}
	for _, p := range f.proxies {
		p.Heal()
	}
	until(t, ttl, "answered", func() bool {
		err = holder.Leave(t.Context(), c)
		return err == nil || errors.Is(err, driver.ErrGone)
	})
	if !errors.Is(err, driver.ErrGone) {
		t.Errorf("the claim was evicted, another holds the name, and Leave returns %v", err)
	}
	out := make([]driver.Standing, 1)
	until(t, ttl, "beaten", func() bool { return rival.Beat(t.Context(), []driver.Claim{next}, out) == nil }) // it may have to reconnect
	if !out[0].Held {
		t.Errorf("the next holder has %+v", out[0])
	}
}
