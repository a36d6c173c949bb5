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

// distant is a store that is a round trip away.
type distant struct {
	kvline.Store
	trip time.Duration
}

func (d distant) Get(ctx context.Context, key string) (kvline.Value, error) {
	time.Sleep(d.trip / 2)
	defer time.Sleep(d.trip / 2)
	return d.Store.Get(ctx, key)
}

func (d distant) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	time.Sleep(d.trip / 2)
	defer time.Sleep(d.trip / 2)
	return d.Store.Put(ctx, key, v, keep)
}

func (d distant) Notify(address, text string) {
	time.AfterFunc(d.trip, func() { d.Store.Notify(address, text) })
}

func (d distant) PutTelling(ctx context.Context, key string, v kvline.Value, keep time.Duration, address, text string) (uint64, error) {
	time.Sleep(d.trip / 2)
	defer time.Sleep(d.trip / 2)
	revision, err := d.Store.Put(ctx, key, v, keep)
	if err == nil {
		time.AfterFunc(d.trip/2, func() { d.Store.Notify(address, fmt.Sprint(text, revision)) })
	}
	return revision, err
}

// openAll opens sessions of an engine each.
func openAll(t *testing.T, store kvline.Store, n int) []driver.Session {
	sessions := make([]driver.Session, n)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() { sessions[i] = open(t, store, fmt.Sprint("comes", i)) })
	}
	all.Wait()
	return sessions
}

// Who comes to a long line is not in the way of those that give the name back.
func TestACrowdThatComesAgainAndAgainTakesItsTurns(t *testing.T) {
	const clients, trip, d = 100, 40 * time.Millisecond, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		sessions := openAll(t, distant{m, trip}, clients)
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var all sync.WaitGroup
		var turns, inside atomic.Int64
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
					if ctx.Err() != nil {
						return
					}
					if err != nil || st.Gone || inside.Add(1) > 1 {
						t.Errorf("%s: %+v, %v", c.ID, st, err)
					}
					turns.Add(1)
					inside.Add(-1)
					if err := s.Leave(t.Context(), c); err != nil {
						t.Error("Leave:", err)
					}
				}
			})
		}
		time.Sleep(d / 2) // first all have to come
		before := turns.Load()
		all.Wait()
		// Nearly each trip has one. Where this machine is slow, its beats are old and a Leave
		// reads first; with all who come writing the line, it is one in four.
		if n, trips := turns.Load()-before, int64(d/2/trip); n < trips*2/5 {
			t.Errorf("%d turns in %d round trips", n, trips)
		}
	})
}

// The notice comes with the write, and not after its answer.
func TestATurnTakesOneRoundTrip(t *testing.T) {
	const trip = 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		all := openAll(t, distant{newMemory(), trip}, 2)
		holder, waiter := queued("holder"), queued("waiter")
		enter(t, all[0], holder)
		at := awaited(t, all[1], waiter, enter(t, all[1], waiter), time.Minute)
		time.Sleep(10 * trip)
		left := time.Now()
		if err := all[0].Leave(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		if took := (<-at).Sub(left); took > trip+trip/4 {
			t.Errorf("it took %v", took)
		}
	})
}

// longLine enters a holder and as many waiters as make a long line, with sessions of their own.
func longLine(t *testing.T, store kvline.Store) (sessions []driver.Session) {
	for i := range 18 {
		sessions = append(sessions, open(t, store, fmt.Sprint("session", i)))
		enter(t, sessions[i], queued(fmt.Sprint("claim", i)))
	}
	synctest.Wait()
	return sessions
}

// ids returns who is in the line of queued claims.
func ids(t *testing.T, store kvline.Store) (all []string) {
	t.Helper()
	e := kvline.New("memory", store, driver.Volatile)
	defer e.Close()
	entries, err := e.Line(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range entries {
		all = append(all, x.ID)
	}
	return all
}

// They are entered by one that is in it.
func TestManyWhoComeAtOnceToALongLineDoNotWriteItInVain(t *testing.T) {
	const clients, trip = 100, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := newCounted(m)
		sessions := openAll(t, distant{store, trip}, clients)
		longLine(t, distant{m, trip})
		begun := time.Now()
		store.take()
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() { enter(t, s, queued(fmt.Sprint("comes", i))) })
		}
		all.Wait()
		if took := time.Since(begun); took > clients*trip*3/2 {
			t.Errorf("it took %v", took)
		}
		if calls := store.take(); calls["Put line"] > clients || calls["Get line"] > 2*clients {
			t.Errorf("it took %v", calls)
		}
		if n := len(ids(t, m)); n != 18+clients {
			t.Errorf("%d are in line", n)
		}
	})
}

// drops is a store that keeps back the notices in which one of words is.
type drops struct {
	kvline.Store
	words []string

	mu   sync.Mutex // guards kept
	kept []func()   // sends what was kept back
}

func (d *drops) Notify(address, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.words, func(word string) bool { return strings.Contains(text, `"`+word+`":`) }) {
		d.kept = append(d.kept, func() { d.Store.Notify(address, text) })
		return
	}
	d.Store.Notify(address, text)
}

// send sends the first notice that was kept back, again if it was sent before.
func (d *drops) send() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[0]()
}

// dropping returns a store that keeps back such notices.
func dropping(store kvline.Store, words ...string) *drops { return &drops{Store: store, words: words} }

func TestWhoIsNotEnteredInTimeEntersByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		longLine(t, m)
		s := open(t, dropping(m, "enter"), "comes")
		begun := time.Now()
		if st := enter(t, s, queued("comes")); st.Held || st.Ahead != 18 {
			t.Errorf("%+v", st)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if all := ids(t, m); len(all) != 19 || all[18] != "comes" {
			t.Errorf("in line: %v", all)
		}
	})
}

// The question is delivered after the one who asked has given up.
func TestAClaimThatIsEnteredAfterItHasLeftLeavesAgain(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("answer lost=%v", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				words := []string{}
				if lost {
					words = append(words, "entered", "asked")
				}
				longLine(t, dropping(m, words...))
				store := dropping(m, "enter", "withdrawn")
				s := open(t, store, "comes")
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if st, err := s.Enter(ctx, queued("comes")); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("%+v, %v", st, err)
				}
				if err := s.Leave(t.Context(), queued("comes")); !errors.Is(err, driver.ErrGone) {
					t.Fatal(err)
				}
				store.send()
				time.Sleep(ttl / 3)
				if there := slices.Contains(ids(t, m), "comes"); there != lost {
					t.Errorf("in line: %v", there)
				}
				beat(t, s)
				if all := ids(t, m); len(all) != 18 {
					t.Errorf("in line: %v", all)
				}
			})
		})
	}
}

// A client with many claims in a line knows it, and asks nobody.
func TestManyClaimsOfAClientComeToALineWithAWriteEach(t *testing.T) {
	const claims, trip = 200, 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		store := newCounted(newMemory())
		holder, s := open(t, distant{store, trip}, "holder"), open(t, distant{store, trip}, "one")
		enter(t, holder, queued("holder"))
		time.Sleep(ttl / 4)
		begun := time.Now()
		store.take()
		var all sync.WaitGroup
		for i := range claims {
			all.Go(func() { enter(t, s, queued(fmt.Sprint("claim", i))) })
		}
		all.Wait()
		took, calls := time.Since(begun), store.take()
		if took > claims*trip*5/4 || calls["Put line"] > claims*5/4 || calls["Get line"] > claims*5/4 { // the holder reads it for each
			t.Errorf("it took %v and %v", took, calls)
		}
	})
}
