package sqllock_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// None of these tests is parallel with the others: a crowd takes the processors, and
// others measure time.

// The row of a name on which many callers come and go is always locked by one of them.
func TestACrowdThatComesAndGoesDoesNotKeepTheHolderFromBeating(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		name := nameOf(t)
		holder, c := openSession(t, r.engine(t), time.Minute), mutex(name)
		hold(t, holder, c)
		ctx, cancel := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		defer crowd.Wait()
		defer cancel()
		for range 2 {
			s := openSession(t, r.engine(t), time.Minute)
			for range 4 {
				crowd.Go(func() { comeAndGo(ctx, t, s, name) })
			}
		}
		for n := range 10 {
			beatUnlessStalled(t, holder, c, n)
		}
	})
}

// comeAndGo stands in line for a moment, over and over.
func comeAndGo(ctx context.Context, t *testing.T, s driver.Session, name string) {
	for ctx.Err() == nil {
		w := mutex(name)
		if _, err := s.Enter(ctx, w); err != nil && ctx.Err() == nil {
			t.Errorf("Enter: %v", err)
			return
		}
		if err := s.Leave(context.WithoutCancel(ctx), w); err != nil && ctx.Err() == nil {
			t.Errorf("Leave: %v", err)
			return
		}
	}
}

// beatUnlessStalled beats once. A beat waits a second for its row: one that took so
// long may have met a machine that stood still, and is made again.
func beatUnlessStalled(t *testing.T, s driver.Session, c driver.Claim, n int) {
	t.Helper()
	const limit = 500 * time.Millisecond
	for range 10 {
		begun := time.Now()
		out := make([]driver.Standing, 1)
		err := s.Beat(t.Context(), []driver.Claim{c}, out)
		switch {
		case err != nil || out[0].Gone:
			t.Fatalf("beat %d: %+v, %v", n, out[0], err)
		case out[0].Valid != 0:
			return
		case time.Since(begun) < limit:
			t.Fatalf("beat %d gave up after %v: %+v", n, time.Since(begun), out[0])
		}
	}
	t.Fatalf("beat %d was never answered", n)
}

// A beat that has not the time for all claims is followed by one for the others.
func TestBeatsThatRunOutOfTimeReachEveryClaimInTurn(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		s := openSession(t, r.engine(t), time.Minute)
		live := holdMany(t, s, nameOf(t), 600)
		out := make([]driver.Standing, len(live))
		whole := time.Minute
		for range 3 {
			begun := time.Now()
			if err := s.Beat(t.Context(), live, out); err != nil {
				t.Fatal(err)
			}
			whole = min(whole, time.Since(begun))
		}
		// Not so short that a connection, which ends with each, takes all of it.
		part := max(whole/4, 40*time.Millisecond)
		beats := 0
		for ; len(live) > 0; beats++ {
			if beats == 200 {
				t.Fatalf("%d claims were not reached by %d beats of %v each, where %v reach all", len(live), beats, part, whole)
			}
			ctx, cancel := context.WithTimeout(t.Context(), part)
			_ = s.Beat(ctx, live, out[:len(live)]) // it runs out of time
			cancel()
			var rest []driver.Claim
			for i := range live {
				switch {
				case out[i].Gone:
					t.Fatalf("claim %d is gone", i)
				case out[i].Valid == 0:
					rest = append(rest, live[i])
				}
			}
			live = rest // as the core does
		}
		t.Logf("%d beats of %v reached all", beats, part)
	})
}

// holdMany holds names of its own.
func holdMany(t *testing.T, s driver.Session, name string, n int) []driver.Claim {
	t.Helper()
	live := make([]driver.Claim, n)
	var wg sync.WaitGroup
	const hands = 16
	for h := range hands {
		wg.Go(func() {
			for i := h; i < n; i += hands {
				live[i] = mutex(fmt.Sprintf("%s/%05d", name, i))
				if st, err := s.Enter(t.Context(), live[i]); err != nil || !st.Held {
					t.Errorf("Enter: %+v, %v", st, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return live
}

// A thousand waiters give up at the same moment, and the holder unlocks.
func TestAHolderKeepsItsLeaseWhenACrowdGivesUp(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) { giveUp(t, r, 50, 10*time.Second) })
}

func giveUp(t *testing.T, r *rig, crowd int, ttl time.Duration) {
	name := nameOf(t)
	holder := openClient(t, r.url, pawl.WithTTL(ttl))
	l, err := holder.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Not passed on inside the process, so that each has a place in the line.
	others := openClient(t, r.url, pawl.WithTTL(time.Minute), pawl.WithFair())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range crowd {
		wg.Go(func() {
			if l, err := others.Mutex(name).Lock(ctx); err == nil { // after the Unlock
				_ = l.Unlock()
			}
		})
	}
	for waiting := 0; waiting < crowd; {
		waiting = -1
		for _, err := range holder.List(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			waiting++
		}
		if err := l.Err(); err != nil {
			t.Fatalf("while %d of them came: %v", waiting, err)
		}
	}
	begun := time.Now()
	cancel()
	wg.Wait()
	for left := crowd; left > 0 && time.Since(begun) < 2*ttl; { // while they leave
		left = -1
		for _, err := range holder.List(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			left++
		}
		if err := l.Err(); err != nil {
			t.Fatalf("%v after they gave up, with %d still in line: %v", time.Since(begun), left, err)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock %v after they gave up: %v", time.Since(begun), err)
	}
	t.Logf("%d have left and the holder has unlocked after %v", crowd, time.Since(begun))
}

// inTurn runs a test on every database that is a server, one after the other.
func inTurn(t *testing.T, test func(t *testing.T, r *rig)) {
	for i := range rigs {
		if rigs[i].name != "sqlite" {
			t.Run(rigs[i].name, func(t *testing.T) { test(t, rigOf(t, i)) })
		}
	}
}

func TestSoakAHolderKeepsItsLeaseWhenAThousandGiveUp(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	inTurn(t, func(t *testing.T, r *rig) { giveUp(t, r, 1000, 10*time.Second) })
}

// Ten thousand are kept for three TTLs and unlocked by many at once.
func TestSoakTenThousandLocksAreKeptWhileTheyAreUnlocked(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	inTurn(t, func(t *testing.T, r *rig) { unlockMany(t, r, 10_000, 10*time.Second, 3) })
}

func TestLocksAreKeptWhileManyAreUnlocked(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) { unlockMany(t, r, 500, 10*time.Second, 0) })
}

// unlockMany takes locks, keeps them for some TTLs, and gives them back.
func unlockMany(t *testing.T, r *rig, locks int, ttl time.Duration, keep int) {
	const hands = 128
	c := openClient(t, r.url, pawl.WithTTL(ttl))
	name := nameOf(t)
	leases := make(chan *pawl.Lease, locks)
	var wg sync.WaitGroup
	for h := range hands {
		wg.Go(func() {
			for i := h; i < locks; i += hands {
				l, err := c.Mutex(fmt.Sprintf("%s/%05d", name, i)).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				leases <- l
			}
		})
	}
	wg.Wait()
	close(leases)
	time.Sleep(time.Duration(keep) * ttl)
	begun := time.Now()
	for range hands {
		wg.Go(func() {
			for l := range leases {
				if err := l.Unlock(); err != nil {
					t.Errorf("Unlock after %v: %v", time.Since(begun), err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d unlocked in %v", locks, time.Since(begun))
}

// Those who give up a place in line wait for each other at the name's row. They do
// not take all connections for that: other locks are given back meanwhile.
func TestACrowdThatGivesUpLeavesConnectionsToOthers(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		name := nameOf(t)
		hold(t, openSession(t, r.engine(t), time.Minute), mutex(name))
		s := openSession(t, r.engine(t), time.Minute)
		crowd := make([]driver.Claim, 40) // more than the engine has connections
		for i := range crowd {
			crowd[i] = mutex(name)
			enter(t, s, crowd[i])
		}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec(r.marked("SELECT 1 FROM pawl_head WHERE name = ? FOR UPDATE"), name); err != nil {
			t.Fatal(err)
		}
		var leaving sync.WaitGroup
		for _, c := range crowd {
			leaving.Go(func() {
				if err := s.Leave(t.Context(), c); err != nil {
					t.Errorf("Leave of one that waited: %v", err)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for range 20 {
			c := mutex(name + "/other")
			if st, err := s.Enter(ctx, c); err != nil || !st.Held {
				t.Fatalf("Enter of another name while the crowd leaves: %+v, %v", st, err)
			}
			if err := s.Leave(ctx, c); err != nil {
				t.Fatalf("Leave of another name while the crowd leaves: %v", err)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		leaving.Wait()
	})
}
