package kvline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// counted is a store that counts calls by what they are for, such as "Put line".
type counted struct {
	*memory
	mu    sync.Mutex // guards what follows
	calls map[string]int
	hangs string // a key that is not read
}

func newCounted(m *memory) *counted { return &counted{memory: m, calls: map[string]int{}} }

func (c *counted) count(call, key string) (hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, _, _ := strings.Cut(key, ".")
	c.calls[call+" "+kind]++
	return call == "Get" && key == c.hangs
}

// take returns the calls since the last take.
func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

func (c *counted) Get(ctx context.Context, key string) (kvline.Value, error) {
	if c.count("Get", key) {
		<-ctx.Done()
		return kvline.Value{}, ctx.Err()
	}
	return c.memory.Get(ctx, key)
}

func (c *counted) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	c.count("Put", key)
	return c.memory.Put(ctx, key, v, keep)
}

// holds enters claims of names of their own.
func holds(t *testing.T, s driver.Session, n int) []driver.Claim {
	all := make([]driver.Claim, n)
	for i := range all {
		all[i] = queued(fmt.Sprint("claim", i))
		all[i].Name = fmt.Sprint("name", i)
		if st := enter(t, s, all[i]); !st.Held {
			t.Fatalf("%+v", st)
		}
	}
	return all
}

func TestABeatOfTenThousandHoldsIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		s := open(t, store, "one")
		all := holds(t, s, 10_000)
		for range 40 {
			time.Sleep(ttl / 3)
			store.take()
			for i, st := range beat(t, s, all...) {
				if !st.Held || st.Valid != ttl || st.Token == 0 {
					t.Fatalf("hold %d: %+v", i, st)
				}
			}
			if calls := store.take(); calls["Put session"] != 1 || calls["Put line"] != 0 || calls["Get line"] > len(all)/32 {
				t.Fatalf("a beat costs %v", calls)
			}
		}
	})
}

func TestABeatOfWaitersWritesNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		enter(t, open(t, store, "holder"), queued("holder"))
		var all []driver.Session
		var claims []driver.Claim
		var entering sync.WaitGroup
		for i := range 100 {
			s, c := open(t, store, fmt.Sprint("session", i)), queued(fmt.Sprint("claim", i))
			all, claims = append(all, s), append(claims, c)
			entering.Go(func() { enter(t, s, c) })
		}
		entering.Wait()
		time.Sleep(ttl / 3)
		store.take()
		for i, s := range all {
			if st := beat(t, s, claims[i])[0]; st.Held || st.Valid != ttl {
				t.Fatalf("waiter %d: %+v", i, st)
			}
		}
		if calls := store.take(); calls["Put session"] != 100 || calls["Put line"] != 0 || calls["Get line"] > 16 {
			t.Errorf("a beat of 100 waiting clients costs %v", calls)
		}
	})
}

// Nothing is learnt of the line that is not read, and everything else is renewed; so is
// its hold, which lives as long as the session.
func TestALineThatIsNotReadCostsNoOtherHoldItsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		s := open(t, store, "one")
		all := holds(t, s, 200)
		time.Sleep(ttl / 3)
		store.hangs = "line.name0"
		out := make([]driver.Standing, len(all))
		ctx, cancel := context.WithTimeout(t.Context(), ttl/6)
		defer cancel()
		_ = s.Beat(ctx, all, out)
		for i, st := range out {
			if !st.Held || st.Valid != ttl {
				t.Errorf("hold %d: %+v", i, st)
			}
		}
	})
}

// Of a session with many holds a beat reads only some lines.
func TestOneOfManyHoldsThatIsEvictedIsGoneAtTheNextBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, "one")
		all := holds(t, s, 2000)
		admin := kvline.New("memory", deaf{m}, driver.Volatile)
		defer admin.Close()
		for _, i := range []int{0, 999, 1999} {
			line, err := admin.Line(t.Context(), all[i].Name)
			if err != nil || len(line) != 1 {
				t.Fatal(line, err)
			}
			if err := admin.Evict(t.Context(), line[0]); err != nil {
				t.Fatal(err)
			}
			for j, st := range beat(t, s, all...) {
				if gone := j == i; st.Gone != gone {
					t.Fatalf("hold %d after %d was evicted: %+v", j, i, st)
				}
			}
			all[i] = queued(fmt.Sprint("again", i))
			all[i].Name = fmt.Sprint("name", i)
			enter(t, s, all[i])
		}
	})
}

// Who deletes a value by hand tells no one.
func TestALineThatIsDeletedByHandIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for n, beats := range map[int]int{200: 1, 10_000: 33} {
			s := open(t, m, fmt.Sprint("session", n))
			all := holds(t, s, n)
			i := n / 2
			v, err := m.Get(t.Context(), "line."+all[i].Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Put(t.Context(), "line."+all[i].Name, kvline.Value{Revision: v.Revision}, 0); err != nil {
				t.Fatal(err)
			}
			gone := 0
			for ; gone <= beats; gone++ {
				if beat(t, s, all...)[i].Gone {
					break
				}
				time.Sleep(ttl / 3)
			}
			if gone >= beats {
				t.Errorf("one of %d holds is not found to be gone by beat %d", n, gone)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The holder and its session stall, a rival takes the name, the holder's beat arrives.
func TestASessionThatWasEndedDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		holder, rival := open(t, m, "one"), open(t, m, "two")
		enter(t, holder, queued("holder"))
		time.Sleep(ttl / 2)
		beat(t, rival)
		deliver := delayBeat(t, m, "one")
		time.Sleep(ttl/2 + time.Second)
		beat(t, rival)
		try := queued("rival")
		try.Queue = false
		if st := enter(t, rival, try); !st.Held {
			t.Fatalf("%+v", st)
		}
		if err := deliver(); !errors.Is(err, kvline.ErrConflict) {
			t.Errorf("a beat that was under way: %v", err)
		}
		out := make([]driver.Standing, 1)
		if err := holder.Beat(t.Context(), []driver.Claim{queued("holder")}, out); !errors.Is(err, driver.ErrGone) || out[0].Valid > 0 {
			t.Errorf("Beat: %+v, %v", out[0], err)
		}
		if _, err := holder.Enter(t.Context(), queued("another")); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Enter: %v", err)
		}
	})
}

// delayBeat returns a write of a session's value on what is there now, to be carried out later.
func delayBeat(t *testing.T, m *memory, session string) (deliver func() error) {
	t.Helper()
	v, err := m.Get(t.Context(), "session."+session)
	if err != nil || v.Data == nil {
		t.Fatal(v, err)
	}
	return func() error {
		_, err := m.Put(t.Context(), "session."+session, v, time.Minute)
		return err
	}
}

// A thousand callers give up at once, and the holder with them.
func TestManyClaimsOfANameLeaveWithOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		s, next := open(t, store, "one"), open(t, store, "two")
		var all []driver.Claim
		for i := range 300 {
			all = append(all, queued(fmt.Sprint("claim", i)))
			enter(t, s, all[i])
		}
		last := enter(t, next, queued("next"))
		at := awaited(t, next, queued("next"), last, time.Second)
		store.take()
		out := make([]error, len(all))
		s.(driver.Leaver).LeaveAll(t.Context(), all, out)
		if err := errors.Join(out...); err != nil {
			t.Error(err)
		}
		if calls := store.take(); calls["Put line"] > 2 { // the first one may be refused
			t.Errorf("it costs %v", calls)
		}
		if (<-at).IsZero() {
			t.Error("the next one does not hold")
		}
	})
}
