package redislock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestASlotThatMovesTakesItsLocksAlong(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.RedisCluster(t)
	url := "redis-cluster://" + strings.Join(s.Addrs(), ",")
	c, rival := open(t, url, pawl.WithTTL(ttl)), open(t, url, pawl.WithTTL(ttl))
	l := lock(t, c.Mutex("name"))
	got := make(chan *pawl.Lease, 1)
	go func() {
		next, err := rival.Mutex("name").Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	slot := s.Slot("pawl:name")
	from := s.Owner(slot)
	at := newConsole(t, from.Addr())
	until(t, 5*time.Second, "in line", func() bool {
		return at.do("EVAL", "return #redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[1], 10)", "0", fmt.Sprint(slot)) > "1"
	})
	var to *testserver.Server
	for _, n := range s.Nodes {
		if n != from {
			to = n
		}
	}
	s.Move(slot, to)
	outlast(ttl)
	if err := l.Err(); err != nil {
		t.Errorf("the hold was lost when its slot moved: %v", err)
	}
	unlock(t, l)
	select {
	case next := <-got:
		if next.Fence() <= l.Fence() {
			t.Errorf("token %d after %d", next.Fence(), l.Fence())
		}
		unlock(t, next)
	case <-time.After(3 * ttl):
		t.Error("the waiter did not go on after its slot had moved")
	}
}

// Names may contain hash tags, complete and incomplete.
func TestHashTagsInNamesAreNothingSpecial(t *testing.T) {
	t.Parallel()
	s := testserver.RedisCluster(t)
	for _, prefix := range []string{"pawl:", "", "{tag}:", "a{b}c"} {
		c := open(t, "redis-cluster://"+strings.Join(s.Addrs(), ",")+"?prefix="+strings.NewReplacer("{", "%7B", "}", "%7D").Replace(prefix))
		var held []*pawl.Lease
		for _, name := range []string{"x", "{x}", "{x}y", "{}", "{", "}", "}{", "a{b", "{a}{b}", "{{a}}"} {
			held = append(held, lock(t, c.Mutex(name)))
			r, err := c.RWMutex(name + "/rw").RLock(t.Context())
			if err != nil {
				t.Fatalf("prefix %q, name %q: %v", prefix, name, err)
			}
			held = append(held, r)
		}
		n := 0
		for _, err := range c.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(held) {
			t.Errorf("prefix %q: %d of %d are listed", prefix, n, len(held))
		}
		for _, l := range held {
			unlock(t, l)
		}
	}
}

// One shard fails; locks on the others are kept.
func TestALostShardCostsOnlyItsOwnLocks(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.RedisCluster(t, "--cluster-require-full-coverage", "no")
	c := open(t, "redis-cluster://"+strings.Join(s.Addrs(), ","), pawl.WithTTL(ttl))
	gone := s.Nodes[0]
	var there, away []*pawl.Lease
	for i := range 60 {
		name := fmt.Sprint("name", i)
		l := lock(t, c.Mutex(name))
		if s.Owner(s.Slot("pawl:"+name)) == gone {
			away = append(away, l)
		} else {
			there = append(there, l)
		}
	}
	gone.Kill()
	outlast(ttl)
	for _, l := range there {
		if err := l.Err(); err != nil {
			t.Fatalf("%s is on a shard that is alive: %v", l.Name(), err)
		}
		unlock(t, l)
	}
	for _, l := range away {
		if l.Err() == nil {
			t.Errorf("%s was on the shard that failed, and its lease goes on", l.Name())
		}
	}
	if len(there) == 0 || len(away) == 0 {
		t.Errorf("%d and %d locks", len(there), len(away))
	}
}
