package etcdlock

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/testserver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// evict breaks the claim at the head of a line.
func evict(t testing.TB, e *Engine, name string) {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil || len(line) == 0 {
		t.Fatalf("Line: %+v, %v", line, err)
	}
	if err := e.Evict(t.Context(), line[0]); err != nil {
		t.Fatalf("Evict: %v", err)
	}
}

func lineOf(t testing.TB, e *Engine, name string) []driver.Entry {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// The cost of Line does not depend on the store's other keys, nor on the length of the
// line.
func TestLineIsOneReadHoweverManyOtherKeysThereAre(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var n count
	e, asks := engine(t, addr), engine(t, addr, n.options()...)
	var all []driver.Claim
	for range 20 { // each under a lease of its own
		s, c := open(t, e, longTTL), mutex("name")
		enter(t, s, c)
		all = append(all, c)
	}
	s := open(t, e, longTTL)
	for range 600 { // more than List reads at a time
		hold(t, s, mutex("name/"+newID()))
	}
	for range 3 {
		n.take()
		line, err := asks.Line(t.Context(), "name")
		if err != nil || len(line) != len(all) {
			t.Fatalf("%d in line, %v, not %d", len(line), err, len(all))
		}
		for i, entry := range line {
			if entry.ID != all[i].ID || entry.Held != (i == 0) {
				t.Errorf("place %d: %+v", i, entry)
			}
		}
		if line[0].Left == 0 {
			t.Error("the time that the holder has left is not shown")
		}
		n.expect(t, "Line", map[string]int{"Range": 1, "LeaseTimeToLive": lineLeases})
		if err := asks.Evict(t.Context(), line[len(line)-1]); err != nil {
			t.Fatal(err)
		}
		n.expect(t, "Evict", map[string]int{"Range": 1, "Txn": 1})
		all = all[:len(all)-1]
	}
	if line, err := asks.Line(t.Context(), "nam"); err != nil || len(line) > 0 {
		t.Errorf("the line of another name: %+v, %v", line, err)
	}
}

// A waiter is granted between the read and the delete of an eviction. The operator asked
// to evict a waiter, not a holder.
func TestAWaiterThatIsGrantedDuringItsEvictionIsNotEvicted(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var p interceptor
	operator, e := engine(t, addr, p.option()), engine(t, addr)
	a, b := open(t, e, longTTL), open(t, e, longTTL)
	first, second := mutex("name"), mutex("name")
	hold(t, a, first)
	wait(t, b, second)
	waits := lineOf(t, operator, "name")[1]
	p.next(deletes, func(send func() error) error {
		leave(t, a, first)
		return send()
	})
	expect(t, "Evict of a waiter that holds by now", operator.Evict(t.Context(), waits), driver.ErrGone)
	if keys := keysOf(t, e, "name"); len(keys) != 1 {
		t.Errorf("in line are %q, not the granted claim", keys)
	}
	hold(t, b, second)
}

// A key that a late Enter put has the ID and the try of the claim, and may be ahead of it.
func TestAnEvictionDeletesTheKeyWhoseTokenItNames(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	c := mutex("name")
	c.Limit = driver.All
	line := e.keys.line(c.Name)
	late := line.key(c, s.lease.ID, 7)
	if _, err := clientOf(e).Put(t.Context(), late, encodeValue(c, s.id), withLease(s)); err != nil {
		t.Fatal(err)
	}
	st := hold(t, s, c)
	for _, entry := range lineOf(t, e, c.Name) {
		if entry.Fence != st.Token {
			continue
		}
		if err := e.Evict(t.Context(), entry); err != nil {
			t.Errorf("Evict of %+v: %v", entry, err)
		}
	}
	if keys := keysOf(t, e, c.Name); !slices.Equal(keys, []string{late}) {
		t.Errorf("in line are %q, not only the late key", keys)
	}
}

// The revision that List reads is compacted away between two of its pages.
func TestListSurvivesACompaction(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, longTTL)
	const names = pageSize + 100
	var puts []clientv3.Op
	for i := range names {
		c := mutex(fmt.Sprintf("name/%03d", i))
		puts = append(puts, clientv3.OpPut(e.keys.line(c.Name).key(c, s.lease.ID, 0), encodeValue(c, s.id), withLease(s)))
	}
	for some := range slices.Chunk(puts, etcdstore.MaxOps) {
		if _, err := clientOf(e).Txn(t.Context()).Then(some...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon)
	defer cancel()
	n := 0
	for _, err := range e.List(ctx, "") {
		if err != nil {
			t.Fatalf("List, after %d claims: %v", n, err)
		}
		if n++; n == 1 {
			compact(t, clientOf(e))
		}
	}
	if n != names {
		t.Errorf("%d claims are listed, not %d", n, names)
	}
}
