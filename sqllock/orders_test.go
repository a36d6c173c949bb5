package sqllock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
)

// The tests here are for what went wrong in other lock libraries.

// A name or a host is no owner. B has taken over from A, of the same
// process and note: nothing that A does touches B.
func TestAnExpiredHolderCannotTouchItsSuccessor(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		e := r.engine(t)
		a, b := openSession(t, e, 100*time.Millisecond), openSession(t, e, time.Minute)
		ca := mutex(nameOf(t))
		cb := mutex(ca.Name)
		hold(t, a, ca)
		stB := take(t, b, cb)
		out := make([]driver.Standing, 1)
		if err := a.Beat(t.Context(), []driver.Claim{ca}, out); err != nil || !out[0].Gone {
			t.Errorf("A's beat: %+v, %v", out[0], err)
		}
		if err := a.Leave(t.Context(), ca); !errors.Is(err, driver.ErrGone) {
			t.Errorf("A's leave: %v", err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Errorf("A's close: %v", err)
		}
		if err := b.Beat(t.Context(), []driver.Claim{cb}, out); err != nil || !out[0].Held || out[0].Token != stB.Token {
			t.Errorf("B after all that: %+v, %v", out[0], err)
		}
	})
}

// An answer that was nine tenths of the TTL under way promises a tenth.
func TestALateAnswerPromisesNoMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = 2 * time.Second
		p := faultproxy.New(t, r.addr)
		c := openClient(t, r.via(p.Addr()), pawl.WithTTL(ttl), pawl.WithoutRenewal())
		m := c.Mutex(nameOf(t))
		l, err := m.Lock(t.Context()) // connects
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Delay(faultproxy.ToClient, ttl*4/10)
		sent := time.Now()
		l, err = m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(sent); took < ttl*4/10 {
			t.Fatalf("the answer was not late: %v", took)
		}
		// A lease may have been asked for again; its deadline counts from then.
		if left := time.Until(l.Deadline()); left > ttl*6/10 {
			t.Errorf("%v are left of %v after an answer that took %v", left, ttl, ttl*4/10)
		}
		p.Heal()
		_ = l.Unlock()
	})
}

// A statement that waited for its row past the TTL must not hold with a
// clock from before the wait.
func TestAGrantThatWaitedForItsRowIsStillHeldWhenAnswered(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = 3 * time.Second // a machine that stands still must not end the lease that is told
		c := openClient(t, r.url, pawl.WithTTL(ttl))
		name := nameOf(t)
		m := c.Mutex(name)
		l, err := m.Lock(t.Context())
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var n int64
		if err := tx.QueryRowContext(t.Context(), r.marked("SELECT fence FROM pawl_head WHERE name = ? FOR UPDATE"), name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		got := make(chan *pawl.Lease, 1)
		go func() {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		time.Sleep(ttl + time.Second)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		lease := <-got
		if lease == nil {
			return
		}
		if err := lease.Err(); err != nil {
			t.Fatalf("the lease that was told: %v", err)
		}
		if _, err := openClient(t, r.url).Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a rival beside it: %v", err)
		}
		if err := lease.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// Beats that follow each other within one tick of the clock change nothing,
// which must not look like a loss.
func TestBeatsInTheSameInstantAreNoLoss(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		s, c := openSession(t, r.engine(t), time.Minute), mutex(nameOf(t))
		hold(t, s, c)
		out := make([]driver.Standing, 1)
		for range 200 {
			if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Gone {
				t.Fatalf("%+v, %v", out[0], err)
			}
		}
	})
}

// With the database silent the context ends before the TTL is over.
func TestALossIsReportedInTimeWhenTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = 2 * time.Second
		stalltest.Within(t, ttl, "reported", func() time.Duration {
			p := faultproxy.New(t, r.addr)
			c := openClient(t, r.via(p.Addr()), pawl.WithTTL(ttl))
			l, err := c.Mutex(nameOf(t)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.BlackHole(faultproxy.Both)
			silent := time.Now()
			select {
			case <-l.Context().Done():
			case <-time.After(10 * ttl):
				t.Fatal("the loss was not reported")
			}
			took := time.Since(silent)
			if !errors.Is(context.Cause(l.Context()), pawl.ErrLost) {
				t.Errorf("cause %v", context.Cause(l.Context()))
			}
			p.Reset()
			p.Heal()
			return took
		})
	})
}

// A read of a silent database ends, also if its caller has set no deadline.
func TestQuestionsToASilentDatabaseEnd(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		c := openClient(t, r.via(p.Addr()))
		list := func() (err error) {
			for _, err = range c.List(t.Context(), nameOf(t)) {
			}
			return err
		}
		if err := list(); err != nil {
			t.Fatal(err)
		}
		p.BlackHole(faultproxy.Both)
		load := func() error {
			_, _, err := c.Engine().(driver.Records).Load(t.Context(), nameOf(t))
			return err
		}
		var asking sync.WaitGroup
		for what, ask := range map[string]func() error{"List": list, "Load": load} {
			asking.Go(func() {
				begun := time.Now()
				err := ask()
				if took := time.Since(begun); !errors.Is(err, pawl.ErrUnreachable) || took > 30*time.Second {
					t.Errorf("%s: %v, after %v", what, err, took)
				}
			})
		}
		asking.Wait()
		p.Reset()
		p.Heal()
	})
}

// Connections that are cut again and again cost no lease; a claim that
// was evicted is lost.
func TestCutConnectionsAreNoLossAndEvictionIsOne(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = 8 * time.Second
		p := faultproxy.New(t, r.addr)
		c := openClient(t, r.via(p.Addr()), pawl.WithTTL(ttl))
		name := nameOf(t)
		l, err := c.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for begun := time.Now(); time.Since(begun) < ttl*5/4; { // without a beat it would be lost by then
			p.Reset()
			time.Sleep(rand.N(ttl / 16))
		}
		if err := l.Err(); err != nil {
			t.Fatalf("lost by cut connections: %v", err)
		}
		operator := openClient(t, r.url)
		for x, err := range operator.List(t.Context(), name) {
			if err == nil {
				err = operator.Evict(t.Context(), x)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-l.Context().Done():
		case <-time.After(5 * ttl):
			t.Fatal("an evicted holder did not learn of it")
		}
	})
}

// A beat that is under way while its claim is left does not bring it back.
func TestABeatBesideALeaveRevivesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		e, name := r.engine(t), nameOf(t)
		s := openSession(t, e, time.Minute)
		for range 100 {
			c := mutex(name)
			hold(t, s, c)
			var wg sync.WaitGroup
			wg.Go(func() { _ = s.Beat(t.Context(), []driver.Claim{c}, make([]driver.Standing, 1)) })
			wg.Go(func() {
				if err := s.Leave(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			if st, err := s.Enter(t.Context(), tries(mutex(name))); err != nil || !st.Held {
				t.Fatalf("after a leave beside a beat: %+v, %v", st, err)
			} else {
				for x, err := range e.List(t.Context(), name) {
					if err == nil {
						c = x.Claim
					}
				}
				if err := s.Leave(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A wait that is cancelled at any moment, also in the very one in which
// its turn comes, leaves nothing that stands in the way.
func TestACancelledWaitLeavesNothingBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		a, b := openClient(t, r.url, pawl.WithTTL(time.Minute)), openClient(t, r.url, pawl.WithTTL(time.Minute))
		name := nameOf(t)
		for range 40 {
			first := lockSoon(t, a, name)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if l, err := b.Mutex(name).Lock(ctx); err == nil {
					_ = l.Unlock()
				}
			}()
			time.Sleep(rand.N(4 * time.Millisecond))
			go cancel()
			if err := first.Unlock(); err != nil {
				t.Fatal(err)
			}
			<-done
		}
		_ = lockSoon(t, a, name).Unlock()
	})
}

// lockSoon locks within a quarter of the TTL of a minute: nothing may have to expire,
// nor to be found by a beat.
func lockSoon(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The reply to an Enter is lost; asked again, the store gives the same
// token and does not call the claim its own rival.
func TestALostReplyIsAnsweredTheSame(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		e := openEngine(t, r.via(p.Addr()))
		s, c := openSession(t, e, time.Minute), mutex(nameOf(t))
		p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(b []byte) bool { return bytes.Contains(b, []byte(c.ID)) }))
		if r.polls() { // values travel in hexadecimal, or prepared
			p.SwallowReplies(1, faultproxy.ThenCut())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := s.Enter(ctx, c)
		cancel()
		p.Heal()
		if err == nil {
			t.Log("the reply was not the one that was lost")
		}
		want := uint64(0)
		for x, err := range r.engine(t).List(t.Context(), c.Name) {
			if err != nil {
				t.Fatal(err)
			}
			want = x.Fence
		}
		if st := hold(t, s, c); want != 0 && st.Token != want {
			t.Errorf("token %d, then %d", want, st.Token)
		}
	})
}

// Tokens rise although the name's row was swept, or comes from an old copy.
func TestTokensRiseOverALostOrRestoredRow(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		s, name := openSession(t, r.engine(t), time.Minute), nameOf(t)
		last := uint64(0)
		for i := range 6 {
			c := mutex(name)
			st := take(t, s, c)
			if st.Token <= last {
				t.Errorf("token %d follows %d", st.Token, last)
			}
			last = st.Token
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				r.exec(t, "DELETE FROM pawl_head WHERE name = ?", name)
			} else {
				r.exec(t, "UPDATE pawl_head SET fence = 1, x_token = 1 WHERE name = ?", name)
			}
		}
	})
}

// A pool gives every statement whichever connection it likes. What was taken on
// one is given back on another, also when the first is gone, and a release that finds
// nothing to give back says so.
func TestALockBelongsToNoConnection(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		c, other := openClient(t, r.via(p.Addr()), pawl.WithTTL(time.Minute)), openClient(t, r.url)
		name := nameOf(t)
		m := c.Mutex(name)
		for range 5 {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Reset() // every connection it may have been taken on
			if _, err := other.Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
				t.Fatalf("a rival after the connection was cut: %v", err)
			}
			if err := l.Unlock(); err != nil {
				t.Fatalf("given back on another connection: %v", err)
			}
			if err := l.Unlock(); !errors.Is(err, pawl.ErrNotHeld) {
				t.Errorf("given back twice: %v", err)
			}
			rival, err := other.Mutex(name).TryLock(t.Context())
			if err != nil {
				t.Fatalf("a rival after it was given back: %v", err)
			}
			if err := rival.Unlock(); err != nil {
				t.Error(err)
			}
		}
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for x, err := range other.List(t.Context(), name) {
			if err == nil {
				err = other.Evict(t.Context(), x)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("the release of a lock that was broken: %v", err)
		}
	})
}

// What is given back of one name leaves the others of the process alone.
func TestNamesOfOneProcessAreApart(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		c, name := openClient(t, r.url), nameOf(t)
		var leases []*pawl.Lease
		for i := range 20 {
			l, err := c.Mutex(fmt.Sprintf("%s/%d", name, i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		for i, l := range leases {
			if err := l.Unlock(); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		for x, err := range c.List(t.Context(), name) {
			t.Errorf("left behind: %+v, %v", x, err)
		}
	})
}

// Many new names at once, by many clients.
func TestManyNewNamesAtOnce(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		e, name := r.engine(t), nameOf(t)
		var wg sync.WaitGroup
		for i := range 16 {
			s := openSession(t, e, time.Minute)
			wg.Go(func() {
				for n := range 25 { // 200 names, every one by two
					c := mutex(fmt.Sprintf("%s/%d", name, n*8+i%8))
					if n%2 == 1 {
						c.Limit = driver.All
					}
					st, err := s.Enter(t.Context(), c)
					if err == nil && (st.Held || c.Queue) {
						err = s.Leave(t.Context(), c)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := e.(retried).Retried(); n != 0 {
			t.Errorf("%d batches were rolled back by the server", n)
		}
	})
}

// Many processes make the tables at once.
func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		sep := "?"
		if strings.Contains(r.url, "?") {
			sep = "&"
		}
		store := r.url + sep + "table_prefix=many" + newID()[:8] + "_"
		var wg sync.WaitGroup
		for range 12 {
			e := openEngine(t, store)
			wg.Go(func() {
				if err := e.(migrator).Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		l, err := openClient(t, store).Mutex("m").Lock(t.Context())
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Names that a collation would take for one another.
func TestNamesAreComparedByteByByte(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		s, base := openSession(t, r.engine(t), time.Minute), newID()
		for _, tail := range []string{"a", "A", "a ", "a  ", "á", "a\u0301", "ä", "ae", "æ", "ß", "ss", "%", "_", "'", "\\", "\"",
			"日本", "😀", "😁", strings.Repeat("x", 255-len(base)), strings.Repeat("x", 254-len(base))} {
			hold(t, s, tries(mutex(base+tail)))
		}
	})
}

// Of two concurrent writes of a record one fails with a conflict, and
// the largest value comes back as it was.
func TestARecordHasOneWriterAVersion(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		rec := r.engine(t).(driver.Records)
		key, big := nameOf(t), bytes.Repeat([]byte{0, '\'', '\\', 0xff}, driver.MaxRecord/4)
		version, err := rec.Store(t.Context(), key, big, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, v, err := rec.Load(t.Context(), key); err != nil || v != version || !bytes.Equal(got, big) {
			t.Fatalf("%d bytes of version %d, %v", len(got), v, err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		wins := 0
		for i := range 8 {
			wg.Go(func() {
				_, err := rec.Store(t.Context(), key, []byte{byte(i)}, version, time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					wins++
				} else if !errors.Is(err, driver.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins != 1 {
			t.Errorf("%d writers of one version", wins)
		}
	})
}

// The server's clock was ahead when a record was last written.
func TestVersionsRiseOnARecordWhoseClockWasAhead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		rec := own.engine(t).(driver.Records)
		last, err := rec.Store(t.Context(), "key", []byte("0"), 0, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		own.exec(t, "UPDATE "+prefix+"record SET version = version + ?", ahead)
		own.exec(t, "UPDATE "+prefix+"head SET fence = 0 WHERE name = ''")
		last += uint64(ahead)
		for i := range 3 {
			version, err := rec.Store(t.Context(), "key", []byte("1"), last, time.Hour)
			if err != nil || version <= last {
				t.Fatalf("write %d: version %d after %d, %v", i, version, last, err)
			}
			last = version
		}
	})
}

// Idle rows are removed while others take the same names.
func TestSweepingNeverTakesANameFromItsHolder(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		e, name := r.engine(t), nameOf(t)
		stop := make(chan struct{})
		var sweeping sync.WaitGroup
		sweeping.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // else the sweeps have the processors
				}
				_, _ = r.db.Exec(r.marked("UPDATE pawl_head SET x_since = 1, x_until = 0 WHERE x_id = '' AND name LIKE ?"), name+"%")
				if err := e.(interface{ Sweep(context.Context) error }).Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		arenas := []*arena{{name: name + "/0"}, {name: name + "/1"}}
		visitors(t, e, arenas, 6, 20)
		close(stop)
		sweeping.Wait()
		for _, a := range arenas {
			a.check(t)
		}
	})
}
