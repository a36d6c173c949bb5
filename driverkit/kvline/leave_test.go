package kvline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// checkLeft checks that nobody of a crowd is in line, and that a few writes sufficed for that.
func checkLeft(t *testing.T, store *counted, clients int) {
	t.Helper()
	if n := store.take()["Put line"]; n > clients/10 {
		t.Errorf("%d writes of the line", n)
	}
	if left := ids(t, store.memory); len(left) > 0 {
		t.Errorf("%d are still in line", len(left))
	}
}

// A crowd that gives up at once leaves with a few writes, and is not in the way of the holder.
func TestACrowdThatGivesUpAtOnceLeaves(t *testing.T) {
	const clients, trip = 200, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := newCounted(m)
		sessions := openAll(t, distant{store, trip}, clients)
		var all sync.WaitGroup
		for i, s := range sessions {
			if i == 1 {
				time.Sleep(trip) // the first one holds
			}
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		all.Wait()
		holder := ids(t, m)[0]
		begun := time.Now()
		store.take()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for i, s := range sessions {
			all.Go(func() {
				c := queued(fmt.Sprint("comes", i))
				if c.ID == holder {
					time.Sleep(trip / 4) // when they are on their way
				}
				if err := s.Leave(ctx, c); err != nil {
					t.Errorf("Leave of %s after %v: %v", c.ID, time.Since(begun), err)
				}
			})
		}
		all.Wait()
		checkLeft(t, store, clients)
	})
}

// Those who have only asked to be entered write nothing to leave.
func TestACrowdThatGivesUpBeforeItIsEnteredIsNotInTheWay(t *testing.T) {
	const clients, trip = 100, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := newCounted(m)
		line, sessions := longLine(t, distant{store, trip}), openAll(t, distant{store, trip}, clients)
		ctx, cancel := context.WithTimeout(t.Context(), 3*trip)
		defer cancel()
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() {
				c := queued(fmt.Sprint("comes", i))
				if st, err := s.Enter(ctx, c); err == nil {
					t.Errorf("Enter: %+v", st)
				}
				if i == 0 {
					store.take()
				}
				if err := s.Leave(t.Context(), c); err != nil && !errors.Is(err, driver.ErrGone) {
					t.Errorf("Leave: %v", err)
				}
			})
		}
		all.Wait()
		begun := time.Now()
		if err := line[0].Leave(t.Context(), queued("claim0")); err != nil || time.Since(begun) > 5*trip {
			t.Errorf("the holder leaves after %v: %v", time.Since(begun), err)
		}
		if n := store.take()["Put line"]; n > clients/5 {
			t.Errorf("%d writes of the line", n)
		}
		time.Sleep(time.Second)
		for _, s := range sessions { // some were entered after they had left
			beat(t, s)
		}
		time.Sleep(time.Second)
		if left := slices.DeleteFunc(ids(t, m), func(id string) bool { return !strings.HasPrefix(id, "comes") }); len(left) > 0 {
			t.Errorf("in line: %v", left)
		}
	})
}

// Who is granted the name while another is asked to take it out of the line gives it back itself.
func TestWhoIsGrantedTheNameWhileItLeavesGivesItBack(t *testing.T) {
	const trip = 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, distant{m, trip})
		var all sync.WaitGroup
		begun := time.Now()
		all.Go(func() {
			if err := sessions[0].Leave(t.Context(), queued("claim0")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(trip / 4)
		all.Go(func() {
			if err := sessions[1].Leave(t.Context(), queued("claim1")); err != nil {
				t.Error(err)
			}
		})
		var st driver.Standing
		var err error
		for err == nil && !st.Held && !st.Gone {
			st, err = sessions[2].Await(t.Context(), queued("claim2"), st)
		}
		if took := time.Since(begun); err != nil || !st.Held || took > 10*trip {
			t.Errorf("%+v, %v after %v", st, err, took)
		}
		all.Wait()
	})
}

// Who is asked may never answer.
func TestWhoIsNotTakenOutOfTheLineLeavesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := longLine(t, dropping(m, "leave"))
		enter(t, open(t, m, "last"), queued("last"))
		begun := time.Now()
		if err := sessions[5].Leave(t.Context(), queued("claim5")); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("Leave: %v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := sessions[6].Leave(ctx, queued("claim6")); err != nil {
			t.Errorf("Leave that is to end soon: %v", err)
		}
		if line := ids(t, m); len(line) != 17 {
			t.Errorf("in line: %v", line)
		}
	})
}

// A question that comes late does not end what was entered since.
func TestALateQuestionToLeaveEndsNoLaterTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := dropping(m, "leave")
		sessions := longLine(t, store)
		if err := sessions[5].Leave(t.Context(), queued("claim5")); err != nil {
			t.Fatal(err)
		}
		again := queued("claim5")
		again.Try = 2
		enter(t, sessions[5], again)
		store.send()
		time.Sleep(time.Second)
		if line := ids(t, m); len(line) != 18 || line[17] != "claim5" {
			t.Errorf("in line: %v", line)
		}
	})
}

// dead is the store of an engine that hears nothing, as one whose process stands still.
type dead struct{ *memory }

func (d dead) Listen(ctx context.Context, _ string, up func(), _ func(string)) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// The core bounds each Leave by a sixth of the TTL, and repeats it; after two TTLs it gives the
// session up.
func TestACrowdThatGivesUpBehindADeadHolderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		enter(t, open(t, dead{m}, "dead"), queued("dead"))
		sessions := longLine(t, m)
		time.Sleep(3 * time.Second) // the line stands
		ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
		defer cancel()
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() {
				for driverkit.Pause(ctx, ttl/3) {
					beat(t, s)
				}
			})
			all.Go(func() {
				for tries := 0; ctx.Err() == nil; tries++ {
					call, cancel := context.WithTimeout(ctx, ttl/6)
					out := make([]error, 1)
					s.(driver.Leaver).LeaveAll(call, []driver.Claim{queued(fmt.Sprint("claim", i))}, out)
					cancel()
					if out[0] == nil || errors.Is(out[0], driver.ErrGone) {
						return
					}
					driverkit.Pause(ctx, min(ttl/30<<min(tries, 4), ttl/3))
				}
			})
		}
		all.Wait()
		if left := ids(t, m); len(left) > 0 {
			t.Errorf("%d are in line after %v of Leaves", len(left), 2*ttl)
		}
	})
}

// old is a store whose reads of the line can be from before, as every Store's may be.
type old struct {
	*memory
	line atomic.Pointer[kvline.Value] // what they find; nil: what there is
}

func (o *old) Get(ctx context.Context, key string) (kvline.Value, error) {
	if v := o.line.Load(); v != nil && key == "line.name" {
		return *v, nil
	}
	return o.memory.Get(ctx, key)
}

func (o *old) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	revision, err := o.memory.Put(ctx, key, v, keep)
	if errors.Is(err, kvline.ErrConflict) { // which brings the news
		o.line.Store(nil)
	}
	return revision, err
}

// holderOfALongLine returns the session of claim1, which holds, on a store whose reads find it
// waiting.
func holderOfALongLine(t *testing.T, m *memory) (s driver.Session, next driver.Session) {
	store := &old{memory: m}
	first := open(t, dead{m}, "first") // its process ends when it has left
	enter(t, first, queued("claim0"))
	s = open(t, store, "second")
	enter(t, s, queued("claim1"))
	next = open(t, m, "third")
	enter(t, next, queued("claim2"))
	for i := range 16 {
		enter(t, open(t, m, fmt.Sprint("session", i)), queued(fmt.Sprint("waits", i)))
	}
	synctest.Wait()
	before, _ := m.Get(t.Context(), "line.name")
	if err := first.Leave(t.Context(), queued("claim0")); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Await(t.Context(), queued("claim1"), driver.Standing{}); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	time.Sleep(ttl * 6 / 10) // Leave reads the line
	store.line.Store(&before)
	return s, next
}

// Unlock says by this that the lock was lost.
func TestLeaveOfAHoldThatWasEndedIsErrGoneAlsoAfterAnOldRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s, _ := holderOfALongLine(t, m)
		admin := kvline.New("memory", m, driver.Volatile)
		defer admin.Close()
		all, err := admin.Line(t.Context(), "name")
		if err != nil || all[0].ID != "claim1" {
			t.Fatal(all, err)
		}
		if err := admin.Evict(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Leave(t.Context(), queued("claim1")); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave: %v", err)
		}
	})
}

func TestAHolderAsksNobodyToLeaveForItAfterAnOldRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s, _ := holderOfALongLine(t, m)
		begun := time.Now()
		if err := s.Leave(t.Context(), queued("claim1")); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("the hold lasted %v more", took)
		}
	})
}

// late is a store whose answers about the line can take long.
type late struct {
	*memory
	by atomic.Int64
}

func (l *late) Get(ctx context.Context, key string) (kvline.Value, error) {
	v, err := l.memory.Get(ctx, key)
	if key == "line.name" {
		time.Sleep(time.Duration(l.by.Load()))
	}
	return v, err
}

// The notice of the grant comes before the question is asked.
func TestWhoIsGrantedTheNameBeforeItAsksGivesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := &late{memory: m}
		first, s := open(t, m, "first"), open(t, store, "second")
		enter(t, first, queued("claim0"))
		enter(t, s, queued("claim1"))
		for i := range 16 { // none of them asks
			enter(t, open(t, m, fmt.Sprint("session", i)), queued(fmt.Sprint("waits", i)))
		}
		synctest.Wait()
		store.by.Store(int64(40 * time.Millisecond))
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Leave(t.Context(), queued("claim1")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Millisecond)
		if err := first.Leave(t.Context(), queued("claim0")); err != nil {
			t.Error(err)
		}
		granted := time.Now()
		all.Wait()
		if took := time.Since(granted); took > 300*time.Millisecond {
			t.Errorf("a claim that leaves held the name for %v", took)
		}
	})
}

// A crowd whose processes end at once is not in its own way.
func TestACrowdThatClosesAtOnceLeaves(t *testing.T) {
	const clients, trip = 200, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := newCounted(m)
		sessions := openAll(t, distant{store, trip}, clients)
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		all.Wait()
		store.take()
		ctx, cancel := context.WithTimeout(t.Context(), ttl/3)
		defer cancel()
		for _, s := range sessions {
			all.Go(func() {
				if err := s.Close(ctx); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		all.Wait()
		checkLeft(t, store, clients)
	})
}

// The core leaves up to 512 claims with one call, within a sixth of the TTL.
func TestLeaveAllOfManyLongLinesTakesAsLongAsThatOfOne(t *testing.T) {
	const names = 512
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		others, s := open(t, m, "others"), open(t, m, "one")
		var cs []driver.Claim
		for n := range names {
			for i := range 18 {
				c := queued(fmt.Sprint("claim", n, ".", i))
				c.Name = fmt.Sprint("name", n)
				if i == 9 {
					cs = append(cs, c)
					enter(t, s, c)
				} else {
					enter(t, others, c)
				}
			}
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), ttl/6)
		defer cancel()
		out := make([]error, names)
		s.(driver.Leaver).LeaveAll(ctx, cs, out)
		failed := 0
		for _, err := range out {
			if err != nil {
				failed++
			}
		}
		if failed > 0 {
			t.Errorf("%d were not left in %v", failed, time.Since(begun))
		}
	})
}

// All of a crowd that passes through the line end at once: whoever holds it then can give it
// back.
func TestAHolderLeavesAMovingCrowdThatEnds(t *testing.T) {
	const clients, trip = 200, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := openAll(t, distant{m, trip}, clients)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() {
				for driverkit.Pause(ctx, ttl/3) {
					beat(t, s)
				}
			})
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					c := queued(fmt.Sprintf("claim%d.%d", i, n))
					st, err := s.Enter(ctx, c)
					for err == nil && !st.Held && !st.Gone {
						st, err = s.Await(ctx, c, st)
					}
					if !st.Held {
						continue
					}
					bound, done := context.WithTimeout(t.Context(), ttl/6)
					if err := s.Leave(bound, c); err != nil {
						t.Errorf("Leave of the holder: %v", err)
					}
					done()
				}
				if err := s.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		all.Wait()
	})
}
