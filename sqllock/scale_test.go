package sqllock_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// names reports whether a request is about one of these names: one driver sends names as
// they are, the other in hexadecimal.
func names(request []byte, of ...driver.Claim) bool {
	for _, c := range of {
		if bytes.Contains(request, []byte(c.Name)) || bytes.Contains(request, []byte(hex.EncodeToString([]byte(c.Name)))) {
			return true
		}
	}
	return false
}

// The answer to the most urgent part of a beat is lost. The others are renewed, and the
// next beat, which asks for the rest alone, renews that.
func TestABeatOfWhichAPartHasNoAnswerRenewsTheRest(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		s := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute)
		live := holdMany(t, s, nameOf(t), 600)
		beatAll(t, s, live...) // connects, and finds how large its parts may be
		p.SwallowReplies(1, faultproxy.Matching(func(request []byte) bool { return names(request, live[0]) }))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		out := make([]driver.Standing, len(live))
		if err := s.Beat(ctx, live, out); err == nil {
			t.Error("a beat without an answer says nothing of it")
		}
		var rest []driver.Claim
		for i, st := range out {
			switch {
			case st.Gone:
				t.Fatalf("claim %d is gone", i)
			case st.Valid == 0:
				rest = append(rest, live[i])
			}
		}
		if p.Swallowed() != 1 || len(rest) == 0 || len(rest) > 500 {
			t.Errorf("%d answers were lost, and %d of %d claims were not renewed", p.Swallowed(), len(rest), len(live))
		}
		for i, st := range beatAll(t, s, rest...) {
			if !st.Held || st.Valid == 0 {
				t.Errorf("of the rest, claim %d: %+v", i, st)
			}
		}
	})
}

// Whatever their names, holders are asked for before those who wait: what is counted is
// how many of these were asked for when the last holder was not yet.
func TestABeatAsksForHoldersBeforeThoseWhoWait(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		p, name := faultproxy.New(t, r.addr), newID()
		s := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute)
		live := append(holdMany(t, s, name+"z", 150), waitMany(t, r, s, name+"a", 150)...)
		beatAll(t, s, live...)
		var mu sync.Mutex // guards what follows
		late, waiting := 0, 0
		p.OnChunk(func(c faultproxy.Chunk) {
			if c.Dir != faultproxy.ToServer || c.Stage != faultproxy.Arrived {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case names(c.Data, live[150:]...):
				waiting++
			case waiting > 0 && names(c.Data, live[:150]...):
				late++
			}
		})
		beatAll(t, s, live...)
		mu.Lock()
		defer mu.Unlock()
		if waiting == 0 || late > 0 {
			t.Errorf("%d requests for those who wait, and %d for holders after them", waiting, late)
		}
	})
}

// The same where there is no network: a beat whose time is short renews all holders
// before the first who waits.
func TestABeatRenewsHoldersBeforeThoseWhoWait(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		if r.addr != "" {
			return // the test above
		}
		name, s := newID(), openSession(t, r.engine(t), time.Minute)
		live := append(holdMany(t, s, name+"z", 300), waitMany(t, r, s, name+"a", 300)...)
		out := make([]driver.Standing, len(live))
		cut := 0
		for n := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*200*time.Microsecond)
			_ = s.Beat(ctx, live, out)
			cancel()
			holders, waiting := 0, 0
			for i, st := range out {
				switch {
				case st.Valid == 0:
				case i < 300:
					holders++
				default:
					waiting++
				}
			}
			if holders < 300 && waiting > 0 {
				t.Fatalf("%d who wait were renewed, and only %d holders", waiting, holders)
			}
			if holders > 0 && holders+waiting < len(live) {
				cut++
			}
		}
		t.Logf("%d beats reached a part of them", cut)
	})
}

// waitMany waits on names of its own that others hold.
func waitMany(t *testing.T, r *rig, s driver.Session, name string, n int) []driver.Claim {
	t.Helper()
	live := holdMany(t, openSession(t, r.engine(t), time.Minute), name, n)
	for i := range live {
		live[i] = mutex(live[i].Name)
		if st := enter(t, s, live[i]); st.Held {
			t.Fatalf("held beside another: %+v", st)
		}
	}
	return live
}

// Many departures are few requests, of one name and of many.
func TestDeparturesLeaveTogether(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		p, name := faultproxy.New(t, r.addr), nameOf(t)
		s := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute)
		const n = 100
		var kinds [][]driver.Claim
		hold(t, openSession(t, r.engine(t), time.Minute), mutex(name))
		var crowd []driver.Claim
		for range n {
			crowd = append(crowd, mutex(name))
			enter(t, s, crowd[len(crowd)-1])
		}
		kinds = append(kinds, crowd, waitMany(t, r, s, name+"/waits", n), holdMany(t, s, name+"/holds", n))
		for i, what := range []string{"one line", "many lines", "holds"} {
			out, before := make([]error, n), p.Forwarded(faultproxy.ToServer)
			s.(driver.Leaver).LeaveAll(t.Context(), kinds[i], out)
			requests := p.Forwarded(faultproxy.ToServer) - before
			for _, err := range out {
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			t.Logf("%s: %d departures in %d requests", what, n, requests)
			if requests > n/2 { // a request may be several packets, and connections may be made
				t.Errorf("%s: %d departures took %d requests", what, n, requests)
			}
		}
	})
}

// A row that a transaction holds keeps those who leave other names from nothing.
func TestARowThatIsHeldDoesNotKeepOthersFromLeaving(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		s := openSession(t, own.engine(t), time.Minute)
		live := waitMany(t, own, s, "busy", 60)
		tx, err := own.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec(own.marked("SELECT 1 FROM "+prefix+"head WHERE name = ? FOR UPDATE"), live[7].Name); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out := make([]error, len(live))
		s.(driver.Leaver).LeaveAll(ctx, live, out)
		failed := 0
		for i, err := range out {
			if err != nil {
				failed++
				if i != 7 {
					t.Errorf("departure %d: %v", i, err)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%d failed", failed)
		}
	})
}

// One process of several sweeps a store.
func TestOneProcessSweepsAtATime(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		for range 5 {
			s, c := openSession(t, own.engine(t), time.Minute), mutex("kept"+newID())
			hold(t, s, c)
			beatAll(t, s, c)
		}
		who := func() (id string) {
			if err := own.db.QueryRowContext(t.Context(), "SELECT x_session FROM "+prefix+"head WHERE name = ''").Scan(&id); err != nil {
				return ""
			}
			return id
		}
		first := ""
		for end := time.Now().Add(30 * time.Second); first == "" && time.Now().Before(end); first = who() {
			time.Sleep(20 * time.Millisecond)
		}
		if first == "" {
			t.Fatal("nobody sweeps")
		}
		for range 50 {
			time.Sleep(20 * time.Millisecond)
			if now := who(); now != first {
				t.Fatalf("%q swept, and %q at once", first, now)
			}
		}
	})
}

// A million names are used once, as fast as this client can, and swept.
func TestSoakAMillionNamesAreUsedOnce(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	for i := range rigs {
		t.Run(rigs[i].name, func(t *testing.T) { useOnce(t, rigOf(t, i), 1_000_000) })
	}
}

func useOnce(t *testing.T, r *rig, n int) {
	const ttl, hands = 10 * time.Second, 64
	own, prefix := r.tables(t)
	c := openClient(t, own.url, pawl.WithTTL(ttl))
	l, err := c.Mutex("kept").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := func() int64 { return own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name LIKE 'once%'") }
	var next, slowest atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range hands {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				at := time.Now()
				l, err := c.Mutex(fmt.Sprintf("once/%07d", i*7919%int64(n))).Lock(t.Context())
				if err == nil {
					err = l.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
				if took := int64(time.Since(at)); took > slowest.Load() {
					slowest.Store(took)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	t.Logf("%d names in %v: %.0f a second, the slowest took %v; %d rows at the end", n, took.Round(time.Second),
		float64(n)/took.Seconds(), time.Duration(slowest.Load()).Round(time.Millisecond), count())
	ended := time.Now()
	time.Sleep(ttl)
	t.Logf("one TTL after the end: %d rows", count())
	for left := count(); left > 0; left = count() {
		if time.Since(ended) > 10*time.Minute {
			t.Fatalf("%d rows are left", left)
		}
		time.Sleep(time.Second)
	}
	t.Logf("none %v after the end", time.Since(ended).Round(time.Second))
	if err := l.Err(); err != nil {
		t.Error(err)
	}
}

// Ten thousand leases are kept for two minutes at a round trip of 50 ms.
func TestSoakTenThousandLeasesAreKeptOnALongWay(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	inTurn(t, func(t *testing.T, r *rig) { keepMany(t, r, 10_000, 10*time.Second, 50*time.Millisecond, 2*time.Minute) })
}

func keepMany(t *testing.T, r *rig, n int, ttl, trip, keep time.Duration) {
	p, name := faultproxy.New(t, r.addr), nameOf(t)
	c := openClient(t, r.via(p.Addr()), pawl.WithTTL(ttl))
	leases := make([]*pawl.Lease, n)
	var wg sync.WaitGroup
	for h := range 64 {
		wg.Go(func() {
			for i := h; i < n; i += 64 {
				var err error
				if leases[i], err = c.Mutex(fmt.Sprintf("%s/%05d", name, i)).Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	p.Delay(faultproxy.Both, trip/2)
	before := p.Forwarded(faultproxy.ToServer)
	time.Sleep(keep)
	lost := 0
	for _, l := range leases {
		if l.Err() != nil {
			lost++
		}
	}
	t.Logf("%d of %d leases lost in %v; %.0f packets a TTL", lost, n, keep,
		float64(p.Forwarded(faultproxy.ToServer)-before)*ttl.Seconds()/keep.Seconds())
	if lost > 0 {
		t.Errorf("%d of %d leases were lost", lost, n)
	}
	p.Heal()
}

// Two hundred callers give up a held name after 20 ms each, over and over, while another
// name is taken by the same client.
func TestSoakAStormOfAcquiresThatGiveUp(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	for i := range rigs {
		t.Run(rigs[i].name, func(t *testing.T) { storm(t, rigOf(t, i), 200, 20*time.Millisecond, 10*time.Second) })
	}
}

func storm(t *testing.T, r *rig, callers int, patience, while time.Duration) {
	const ttl = 10 * time.Second
	name := nameOf(t)
	h := openClient(t, r.url, pawl.WithTTL(ttl))
	held, err := h.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := openClient(t, r.url, pawl.WithTTL(ttl), pawl.WithFair())
	begun := time.Now()
	var tried atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for time.Since(begun) < while {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if _, err := c.Mutex(name).Lock(ctx); err == nil {
					t.Error("held beside another")
				}
				cancel()
				tried.Add(1)
			}
		})
	}
	var waits []time.Duration
	for n := 0; time.Since(begun) < while; n++ {
		at := time.Now()
		l, err := c.Mutex(fmt.Sprint(name, "/other", n%10)).Lock(t.Context())
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, time.Since(at).Round(time.Millisecond))
		time.Sleep(10 * time.Millisecond)
	}
	all.Wait()
	ended := time.Now()
	slices.Sort(waits)
	t.Logf("%d gave up; another name was had %d times, median %v, 99 %% %v, at most %v", tried.Load(), len(waits),
		waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	for {
		line, err := h.Line(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(line) == 1 && c.Stats().Departures == 0 {
			break
		}
		if time.Since(ended) > time.Minute {
			t.Fatalf("%d are left in line, and %d departures", len(line)-1, c.Stats().Departures)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("all were settled %v after the end", time.Since(ended).Round(10*time.Millisecond))
	if err := held.Err(); err != nil {
		t.Error(err)
	}
}
