package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A countingNode counts its calls of List and Line.
type countingNode struct {
	*memlock.Engine
	lists, lines *atomic.Int64
	silent       atomic.Bool
	far          time.Duration
	asked        func() // called ahead of each Line; may be nil
}

func (v *countingNode) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	v.lists.Add(1)
	return v.Engine.List(ctx, prefix)
}

func (v *countingNode) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	v.lines.Add(1)
	time.Sleep(v.far)
	if v.asked != nil {
		v.asked()
	}
	if v.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return v.Engine.Line(ctx, name)
}

func TestLineAndEvictAskNodesForOneNameOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists, lines atomic.Int64
		var mem []*countingNode
		var all []quorum.Node
		for i := range 3 {
			mem = append(mem, &countingNode{Engine: memlock.New(), lists: &lists, lines: &lines})
			all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: mem[i]})
		}
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		for id, name := range map[string]string{"aa": "name", "ab": "name more", "ac": "nam"} {
			if st, err := s.Enter(t.Context(), mutex(id, name)); err != nil || !st.Held {
				t.Fatal(st, err)
			}
			time.Sleep(10 * time.Millisecond) // until it is at every node, and the next proposal differs
		}
		line, err := e.Line(t.Context(), "name")
		if err != nil || len(line) != 1 || line[0].ID != "aa" || !line[0].Held {
			t.Fatalf("%+v, %v", line, err)
		}
		synctest.Wait()
		if n := lines.Load(); n != 3 {
			t.Errorf("three nodes were asked %d times", n)
		}
		if free, err := e.Line(t.Context(), "free"); err != nil || len(free) != 0 {
			t.Errorf("a free name has %+v, %v", free, err)
		}
		mem[0].silent.Store(true) // Line must not wait for a minority that does not answer
		start := time.Now()
		if again, err := e.Line(t.Context(), "name"); err != nil || len(again) != 1 || again[0].Fence != line[0].Fence {
			t.Errorf("beside a silent node: %+v, %v", again, err)
		}
		if free, err := e.Line(t.Context(), "free"); err != nil || len(free) != 0 {
			t.Errorf("a free name beside a silent node: %+v, %v", free, err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Line waited %v for a node that could change nothing", took)
		}
		mem[0].silent.Store(false)
		if err := e.Evict(t.Context(), line[0]); err != nil {
			t.Errorf("Evict: %v", err)
		}
		if line, err := e.Line(t.Context(), "name"); err != nil || len(line) != 0 {
			t.Errorf("evicted, and still %+v, %v", line, err)
		}
		if n := lists.Load(); n != 0 {
			t.Errorf("nodes were asked %d times for all their names", n)
		}
	})
}

// Who waits looks now and then whether the line it is in can move. That line may be long, and
// it has just answered who is in the way: only the others are asked, once for all claims of a
// process.
func TestAWaiterDoesNotReadTheLineItIsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		lines := make([]atomic.Int64, 3)
		var all []quorum.Node
		for i := range lines {
			all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: &countingNode{Engine: memlock.New(), lists: &lists, lines: &lines[i], far: 50 * time.Millisecond}})
		}
		holds, waits := open(t, all), open(t, all)
		defer holds.Close()
		defer waits.Close()
		one, another := sessionOf(t, holds, "one", time.Minute), sessionOf(t, waits, "another", time.Minute)
		if st, err := one.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		const claims, long = 100, 50 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var waiting sync.WaitGroup
		for n := range claims {
			c := mutex(fmt.Sprint("bb", n), "name")
			st, err := another.Enter(t.Context(), c)
			if err != nil || st.Held {
				t.Fatal(st, err)
			}
			waiting.Go(func() {
				if st, err := another.Await(ctx, c, st); st.Held || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("behind a holder: %+v, %v", st, err)
				}
			})
		}
		waiting.Wait()
		for k, i := range quorum.Order(another, "name") {
			asked := lines[i].Load()
			t.Logf("node %d of the name's order was asked for its line %d times by %d claims in %v", k, asked, claims, long)
			if most := int64(long / time.Second); (asked == 0) != (k == 0) || asked > most {
				t.Errorf("%d times is the most", most)
			}
		}
	})
}

// The holder that its node has just named gives the name back before the others are asked for it.
func TestAReleaseIsNotTakenForALineThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var release func()
		var lists, lines atomic.Int64
		var all []quorum.Node
		for i := range 3 {
			all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: &countingNode{Engine: memlock.New(), lists: &lists, lines: &lines, asked: func() { release() }}})
		}
		holds, waits := open(t, all), open(t, all)
		defer holds.Close()
		defer waits.Close()
		one, another := sessionOf(t, holds, "one", time.Minute), sessionOf(t, waits, "another", time.Minute)
		if st, err := one.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		release = sync.OnceFunc(func() {
			if err := one.Leave(t.Context(), mutex("aa", "name")); err != nil {
				t.Error(err)
			}
		})
		st, err := another.Enter(t.Context(), mutex("bb", "name"))
		if err != nil || st.Held {
			t.Fatal(st, err)
		}
		if st, err = another.Await(t.Context(), mutex("bb", "name"), st); !st.Held || err != nil {
			t.Errorf("its turn came, and it has left the line: %+v, %v", st, err)
		}
	})
}

// Two of three nodes hold the claim. If the third answers among the first two, Line has
// to wait for the last one.
func TestLineWaitsForANodeThatDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(3, 1)
		e, err := quorum.New(w.client())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		if st, err := s.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		time.Sleep(10 * time.Millisecond)
		for i := range w.nodes { // one of them loses the claim
			line, err := w.nodes[i].Line(t.Context(), "name")
			if err != nil || len(line) != 1 {
				t.Fatal(line, err)
			}
			if i == 0 {
				if err := w.nodes[i].Evict(t.Context(), line[0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.mu.Lock()
		w.delay = 5 * time.Millisecond // nodes answer in random order
		w.mu.Unlock()
		for range 100 {
			if line, err := e.Line(t.Context(), "name"); err != nil || len(line) != 1 {
				t.Fatalf("held by two of three: %+v, %v", line, err)
			}
		}
	})
}

// A noEvictNode fails to evict.
type noEvictNode struct{ *countingNode }

func (s noEvictNode) Evict(context.Context, driver.Entry) error { return driver.ErrUnreachable }

// One node does not answer and one fails to evict: the holder may hold these two.
func TestAnEvictionThatAMajorityMayHaveMissedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts atomic.Int64
		var mem []*countingNode
		var all []quorum.Node
		for i := range 3 {
			mem = append(mem, &countingNode{Engine: memlock.New(), lists: &counts, lines: &counts})
			all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: mem[i]})
		}
		all[1].Engine = noEvictNode{mem[1]}
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		c := mutex("aa", "name")
		entry := heldAlone(t, e, s, c)
		mem[0].silent.Store(true)
		if err := e.Evict(t.Context(), entry); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Evict: %v, not ErrUnreachable", err)
		}
		out := make([]driver.Standing, 1)
		if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
			t.Errorf("the holder, whom one node of three has evicted, has %+v, %v", out[0], err)
		}
	})
}
