package etcdlock

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"

	"google.golang.org/grpc"
)

// A count has the number of a client's calls, and the size of its largest reply.
type count struct {
	mu      sync.Mutex // guards what follows
	calls   map[string]int
	largest int
}

func (n *count) options() []grpc.DialOption {
	n.calls = map[string]int{}
	note := func(method string, reply any) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.calls[method[strings.LastIndex(method, "/")+1:]]++
		if m, ok := reply.(proto.Message); ok {
			n.largest = max(n.largest, proto.Size(m))
		}
	}
	return []grpc.DialOption{
		afterCall(func(method string, _, reply any, _ error) { note(method, reply) }),
		onMessage(func(method string, message any) { note(method, message) }),
	}
}

// take returns the counts since the last take.
func (n *count) take() (calls map[string]int, largest int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls, largest = n.calls, n.largest
	n.calls, n.largest = map[string]int{}, 0
	return calls, largest
}

func (n *count) expect(t *testing.T, what string, want map[string]int) {
	t.Helper()
	if got, _ := n.take(); !maps.Equal(got, want) {
		t.Errorf("%s costs %v, not %v", what, got, want)
	}
}

func TestTheBudgetOfCallsIsKept(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{"Debian's": testserver.Etcd, "newest": testserver.NewEtcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget(t, start(t).Addr())
		})
	}
}

func budget(t *testing.T, addr string) {
	var n count
	other, e := engine(t, []string{addr}), engine(t, []string{addr}, n.options()...)
	a, b := open(t, other, longTTL), open(t, e, longTTL)
	n.take()
	one, away := map[string]int{"Txn": 1}, map[string]int{"DeleteRange": 1}

	kinds := map[string][2]int{"mutex": {1, 1}, "writer": {driver.All, driver.All}, "reader": {1, driver.All}, "semaphore": {2, 5}}
	for kind, size := range kinds {
		c := driver.Claim{ID: newID(), Try: 1, Name: kind, Need: size[0], Limit: size[1], Queue: true}
		hold(t, b, c)
		n.expect(t, "acquiring a "+kind, one)
		leave(t, b, c)
		n.expect(t, "releasing a "+kind, away)
		c = tries(c)
		c.ID = newID()
		hold(t, b, c)
		n.expect(t, "trying a free "+kind, one)
		leave(t, b, c)
		n.take()
		busy := mutex(kind)
		hold(t, a, busy)
		c.ID = newID()
		if st := enter(t, b, c); st.Held {
			t.Fatalf("%+v", st)
		}
		n.expect(t, "trying a busy "+kind, one)
		leave(t, a, busy)
	}

	ca, cb := mutex("line"), mutex("line")
	hold(t, a, ca)
	wait(t, b, cb)
	n.expect(t, "entering a line where the last Enter met nobody", one)
	leave(t, b, cb)
	n.expect(t, "leaving the line", away)
	cb = mutex("line")
	st := wait(t, b, cb)
	n.expect(t, "entering a line", one)
	got := begin(t, func() (driver.Standing, error) { return until(t.Context(), b, cb, st) })
	for begun := time.Now(); ; time.Sleep(time.Millisecond) { // one watch, and one read after it
		n.mu.Lock()
		read := n.calls["Range"] > 0
		n.mu.Unlock()
		if read || time.Since(begun) > soon {
			break
		}
	}
	n.take() // includes the watch that keeps the stream open
	leave(t, a, ca)
	if st, err := got.within(t, soon, "the turn"); err != nil || !st.Held {
		t.Fatalf("Await: %+v, %v", st, err)
	}
	calls, _ := n.take()
	if calls["Txn"] > 1 || calls["Watch"] < 1 || len(calls) > 2 {
		t.Errorf("a wake-up costs %v, not the events and at most one read", calls)
	}
}

// A line of hundreds of claims must not be sent to every claim that enters it or waits in it.
func TestALongLineIsNotReadWhole(t *testing.T) {
	t.Parallel()
	var n count
	e := engine(t, []string{testserver.Etcd(t).Addr()}, n.options()...)
	s := open(t, e, longTTL)
	const length, lanes = 300, 20
	kinds := map[string][2]int{"mutex": {1, 1}, "reader": {1, driver.All}, "semaphore": {1, 4}}
	for kind, size := range kinds {
		claim := func() driver.Claim {
			return driver.Claim{ID: newID(), Try: 1, Name: kind, Need: size[0], Limit: size[1], Queue: true, Note: strings.Repeat("n", 100)}
		}
		first := mutex(kind)
		hold(t, s, first)
		var wg sync.WaitGroup
		for range lanes {
			wg.Go(func() {
				for range length / lanes {
					if st, err := s.Enter(t.Context(), claim()); err != nil || st.Held {
						t.Errorf("Enter: %+v, %v", st, err)
						return
					}
				}
			})
		}
		wg.Wait()
		last := claim()
		st := wait(t, s, last)
		if st.Ahead != length+1 {
			t.Errorf("%s: %d ahead, not %d", kind, st.Ahead, length+1)
		}
		if st, err := s.look(t.Context(), s.find(last), 0); err != nil || st.Held {
			t.Errorf("look: %+v, %v", st, err)
		}
		if st := enter(t, s, tries(mutex(kind))); st.Held {
			t.Errorf("a try behind hundreds: %+v", st)
		}
		if _, largest := n.take(); largest > 2<<10 {
			t.Errorf("%s: a reply has %d bytes with %d in line", kind, largest, length)
		}
	}
}

// The slots of claims that have ended are used again.
func TestPastClaimsLeaveNoKeysBehind(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	seen := map[string]bool{}
	for range 50 {
		cs := []driver.Claim{mutex("name"), mutex("name"), mutex("name")}
		for _, c := range cs {
			enter(t, s, c)
		}
		for _, key := range keysOf(t, e, "name") {
			seen[key] = true
		}
		for _, c := range cs {
			leave(t, s, c)
		}
	}
	if len(seen) != 3 {
		t.Errorf("150 claims, three at a time, used %d keys", len(seen))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims)+len(s.slots) > 0 {
		t.Errorf("%d claims and %d slots are remembered", len(s.claims), len(s.slots))
	}
}

// EnterAll refuses what it cannot do, and enters nothing.
func TestTooManyNamesAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	names := func(n int) (cs []driver.Claim) {
		for i := range n {
			cs = append(cs, mutex(fmt.Sprintf("many/%d", i)))
		}
		return cs
	}
	if out, err := s.EnterAll(t.Context(), names(60)); err != nil || len(out) != 60 {
		t.Errorf("60 names: %d, %v", len(out), err)
	}
	_, err := s.EnterAll(t.Context(), names(200))
	expect(t, "200 names", err, driver.ErrUnsupported)
	n := 0
	for _, err := range e.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 60 {
		t.Errorf("%d claims are listed, not 60", n)
	}
}
