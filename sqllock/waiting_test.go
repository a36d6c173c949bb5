package sqllock_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
)

// pushed is the server that notifies waiters of their turn.
func pushed(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := rigOf(t, 0)
	if r.name != "postgres" {
		t.Fatalf("%s does not", r.name)
	}
	return r
}

// apart is a database of its own on the server: beats sweep, by and by, what others
// leave behind.
func (r *rig) apart(t *testing.T) *rig {
	t.Helper()
	own, db := *r, "apart"+newID()
	r.exec(t, "CREATE DATABASE "+db)
	own.url = strings.Replace(r.url, "/postgres?", "/"+db+"?", 1)
	own.db = mustDB(r.driver, strings.Replace(r.dsn, "/postgres?", "/"+db+"?", 1))
	own.migrate(t)
	return &own
}

// beatAll beats the claims of a session and returns how each stands.
func beatAll(t *testing.T, s driver.Session, live ...driver.Claim) []driver.Standing {
	t.Helper()
	out := make([]driver.Standing, len(live))
	if err := s.Beat(t.Context(), live, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// beatUntil beats the claims of a session until one that waits has its turn.
func beatUntil(t *testing.T, got <-chan driver.Standing, s driver.Session, live ...driver.Claim) {
	t.Helper()
	for began := time.Now(); ; {
		beatAll(t, s, live...)
		select {
		case <-got:
			return
		case <-time.After(s.TTL() / 8):
		}
		if time.Since(began) > 10*s.TTL() {
			t.Fatal("no waiter noticed")
		}
	}
}

// awaitHeld awaits, in the background, until a claim is held.
func awaitHeld(t *testing.T, s driver.Session, c driver.Claim, last driver.Standing) <-chan driver.Standing {
	held := make(chan driver.Standing, 1)
	go func() { // ends with the test's context
		for !last.Held {
			st, err := s.Await(t.Context(), c, last)
			if err != nil || st.Gone {
				if t.Context().Err() == nil {
					t.Errorf("Await: %+v, %v", st, err)
				}
				return
			}
			last = st
		}
		held <- last
	}()
	return held
}

// Claims that wait cost their beats, which are one request for all of them, and tell
// all that a look would; also while somebody is dead who is in nobody's way.
func TestBeatenWaitersNeedNotLook(t *testing.T) {
	r := pushed(t).apart(t)
	const ttl = 5 * time.Second
	p, name := faultproxy.New(t, r.addr), nameOf(t)
	holder, h := openSession(t, r.engine(t), ttl), mutex(name)
	hold(t, holder, h)
	beatAll(t, holder, h)
	for r.number(t, "SELECT count(*) FROM pawl_head WHERE name = '' AND x_session <> ''") == 0 {
		time.Sleep(10 * time.Millisecond) // until it sweeps: then the other does not
	}
	waiters, live := openSession(t, openEngine(t, r.via(p.Addr())), ttl), make([]driver.Claim, 4)
	since := time.Now()
	for i := range live {
		live[i] = mutex(name)
		awaitHeld(t, waiters, live[i], enter(t, waiters, live[i]))
	}
	enter(t, openSession(t, r.engine(t), 100*time.Millisecond), mutex(name)) // which is never beaten
	before, beats := 0, 0
	for began := time.Now(); time.Since(began) < ttl*5/2; beats++ {
		if before == 0 && time.Since(began) > ttl { // they have looked when they came, and LISTEN was tried
			before, beats = p.Forwarded(faultproxy.ToServer), 0
		}
		beatAll(t, holder, h)
		for _, st := range beatAll(t, waiters, live...) {
			if st.Held || st.Gone || st.Valid == 0 {
				t.Fatalf("a waiting claim stands at %+v", st)
			}
		}
		time.Sleep(ttl / 8)
	}
	// On a machine that stands still the connection that listens is asked every 15 s
	// whether it is still there.
	probes := int(time.Since(since) / (15 * time.Second))
	// Whether the holder's process still sweeps, on a connection of the pool, which was idle
	// and is asked first whether it is still there.
	looks := 2 * (1 + int(time.Since(since)/(10*time.Second)))
	if n := p.Forwarded(faultproxy.ToServer) - before; n > beats+probes+looks {
		t.Errorf("%d requests for %d beats, %d probes and %d looks", n, beats, probes, looks)
	}
}

// Waiters whose claims are beaten look all the same when a claim ahead expires.
func TestBeatenWaitersNoticeExpiredHolders(t *testing.T) {
	r := pushed(t)
	const ttl = 2 * time.Second
	sessions := func(t *testing.T) (dying, living driver.Session, name string) {
		t.Parallel()
		return openSession(t, r.engine(t), ttl), openSession(t, r.engine(t), 3*ttl), nameOf(t)
	}
	// noticed beats until c, which waits, has its turn.
	noticed := func(t *testing.T, s driver.Session, c driver.Claim, live ...driver.Claim) {
		t.Helper()
		beatUntil(t, awaitHeld(t, s, c, enter(t, s, c)), s, append(live, c)...)
	}
	t.Run("the holder", func(t *testing.T) {
		dying, living, name := sessions(t)
		hold(t, dying, mutex(name))
		next, last := mutex(name), mutex(name)
		got := awaitHeld(t, living, next, enter(t, living, next))
		done := make(chan struct{})
		go func() { // ends with next's turn, or the test's context
			defer close(done)
			select {
			case <-got:
				if err := living.Leave(t.Context(), next); err != nil {
					t.Error(err)
				}
			case <-t.Context().Done():
			}
		}()
		noticed(t, living, last, next)
		<-done
	})
	t.Run("the holder and a waiting claim", func(t *testing.T) {
		dying, living, name := sessions(t)
		hold(t, dying, mutex(name))
		enter(t, dying, mutex(name))
		noticed(t, living, mutex(name))
	})
	t.Run("one of two holders", func(t *testing.T) {
		dying, living, name := sessions(t)
		permit := func() driver.Claim {
			c := mutex(name)
			c.Limit = 2
			return c
		}
		other := permit()
		hold(t, dying, permit())
		hold(t, living, other)
		noticed(t, living, permit(), other)
	})
}

// In a long line a poll reads what it is for, not the line: all that wait poll.
func TestAPollDoesNotReadTheLine(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		if !r.polls() {
			return // it is notified
		}
		p, name := faultproxy.New(t, r.addr), nameOf(t)
		const n = 120
		others := openSession(t, r.engine(t), time.Minute)
		line := make([]driver.Claim, n)
		for i := range line {
			line[i] = mutex(name)
			enter(t, others, line[i])
		}
		waiter, c := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute), mutex(name)
		var polls, lines atomic.Int64 // answers, and those with a claim from far behind
		entered := enter(t, waiter, c)
		p.OnChunk(func(x faultproxy.Chunk) {
			if x.Dir == faultproxy.ToClient && x.Stage == faultproxy.Arrived {
				polls.Add(1)
				if bytes.Contains(x.Data, []byte(line[n-1].ID)) {
					lines.Add(1)
				}
			}
		})
		got := awaitHeld(t, waiter, c, entered)
		for i := range line {
			if i%10 == 0 { // it has seen what changed
				seen := polls.Load()
				for begun := time.Now(); polls.Load() == seen && time.Since(begun) < 30*time.Second; {
					time.Sleep(time.Millisecond)
				}
			}
			if i == n-10 {
				t.Logf("%d answers", polls.Load())
				if lines.Load() > 0 {
					t.Errorf("%d of %d answers had the line", lines.Load(), polls.Load())
				}
			}
			if err := others.Leave(t.Context(), line[i]); err != nil {
				t.Fatal(err)
			}
		}
		beatUntil(t, got, waiter, c)
	})
}

// A waiter that is evicted is told, also if it is not the first.
func TestAnEvictedWaiterBehindAnotherIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		const ttl = time.Minute
		holder, waiter := openSession(t, r.engine(t), ttl), openSession(t, r.engine(t), ttl)
		operator := r.engine(t)
		stalltest.Within(t, ttl/10, "it is told", func() time.Duration { // a beat would after a third
			name := nameOf(t)
			hold(t, holder, mutex(name))
			enter(t, holder, mutex(name))
			c := mutex(name)
			last := enter(t, waiter, c)
			gone := make(chan struct{})
			go func() { // ends with the test's context
				defer close(gone)
				for !last.Gone {
					var err error
					if last, err = waiter.Await(t.Context(), c, last); err != nil || last.Held {
						t.Errorf("Await: %+v, %v", last, err)
						return
					}
				}
			}()
			for x, err := range operator.List(t.Context(), name) {
				if err != nil {
					t.Fatal(err)
				}
				if x.ID != c.ID {
					continue
				}
				if err := operator.Evict(t.Context(), x); err != nil {
					t.Fatal(err)
				}
			}
			evicted := time.Now()
			<-gone
			return time.Since(evicted)
		})
	})
}

// The row of a name is locked for as long as a claim takes to enter its line, or the line
// to be granted to the next, and the holder's beat waits for that row.
func TestALongLineIsReadOnceByWhoEntersAndNotToGrantTheNext(t *testing.T) {
	t.Parallel()
	const n, some = 1000, 10
	for i := range rigs {
		if rigs[i].name != "mysql" { // it counts the rows that are read
			continue
		}
		r, prefix := rigOf(t, i).tables(t)
		s, name := openSession(t, r.engine(t), time.Minute), nameOf(t)
		holder := mutex(name)
		hold(t, s, holder)
		token := r.number(t, "SELECT fence FROM "+prefix+"head WHERE name = ?", name)
		rows := make([]string, n)
		for i := range rows {
			token++
			rows[i] = fmt.Sprintf("('%s',%d,'%s',1,'s','','',1,1,1,0,1,%d)", name, token, newID(), far)
		}
		r.exec(t, "INSERT INTO "+prefix+"claim VALUES "+strings.Join(rows, ","))
		r.exec(t, "UPDATE "+prefix+"head SET waiting = ?, fence = ? WHERE name = ?", n, token, name)
		read := func() int64 {
			return r.number(t, "SELECT count_fetch FROM performance_schema.table_io_waits_summary_by_table WHERE object_name = ?", prefix+"claim")
		}
		before := read()
		for i := range some {
			if st := enter(t, s, mutex(name)); st.Held || st.Ahead != 1+n+i || st.Holder == nil || !st.Holder.Held {
				t.Errorf("the claim that came %d behind the line stands at %+v", i, st)
			}
		}
		if each := (read() - before) / some; each < n || each > 3*n/2 {
			t.Errorf("a claim that enters behind %d others reads %d rows", n, each)
		}
		before = read()
		if err := s.Leave(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		if next := r.number(t, "SELECT x_token FROM "+prefix+"head WHERE name = ? AND x_id <> ''", name); next != token-n+1 {
			t.Errorf("the claim with token %d has the name, not %d", next, token-n+1)
		}
		if all := read() - before; all > n/10 {
			t.Errorf("%d rows are read to grant the name to the next of %d", all, n+some)
		}
	}
}
