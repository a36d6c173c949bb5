package sqllock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A holder is evicted, somebody else has the name, and then an Enter of the holder's
// arrives that was sent before and got no answer. The claim is in line again, and
// later even holds; but what its holder was told it holds has ended, and its beat says
// so.
func TestAnEnterThatLandsAfterAnEvictionDoesNotKeepTheHoldAlive(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		for what, size := range map[string]int{"a mutex": 1, "a reader": driver.All} {
			for _, others := range []int{0, 2} { // several are beaten by another statement than one
				e, name := r.engine(t), nameOf(t)
				id := newID()
				a, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				late, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				b := openSession(t, e, time.Minute)
				c, cb := mutex(name), mutex(name)
				c.Limit, cb.Need, cb.Limit = size, size, size
				live := []driver.Claim{c}
				first := hold(t, a, c)
				for range others {
					other := mutex(nameOf(t))
					hold(t, a, other)
					live = append(live, other)
				}
				if st := enter(t, b, cb); st.Held {
					t.Fatalf("%s: both hold", what)
				}
				line, err := e.Line(t.Context(), name)
				if err != nil || len(line) != 2 {
					t.Fatalf("%s: a line of %d, %v", what, len(line), err)
				}
				if err := e.Evict(t.Context(), line[0]); err != nil {
					t.Fatal(err)
				}
				take(t, b, cb)
				if st := enter(t, late, c); st.Held {
					t.Fatalf("%s: both hold: %+v", what, st)
				}
				expectGone(t, what+", which waits again", a, live)
				if err := b.Leave(t.Context(), cb); err != nil {
					t.Fatal(err)
				}
				if st := take(t, late, c); st.Token <= first.Token {
					t.Errorf("%s: token %d after %d", what, st.Token, first.Token)
				}
				expectGone(t, what+", which holds again", a, live)
				if err := a.Leave(t.Context(), c); err != nil {
					t.Errorf("%s: what came late cannot be left: %v", what, err)
				}
				if left, err := e.Line(t.Context(), name); err != nil || len(left) != 0 {
					t.Errorf("%s: %d are left, %v", what, len(left), err)
				}
			}
		}
	})
}

// expectGone beats twice: the first of live has ended, the others are prolonged.
func expectGone(t *testing.T, what string, s driver.Session, live []driver.Claim) {
	t.Helper()
	for range 2 {
		for i, st := range beatAll(t, s, live...) {
			if st.Gone != (i == 0) || st.Gone == (st.Valid > 0) {
				t.Errorf("%s: beat %d of %d says %+v", what, i, len(live), st)
			}
		}
	}
}

// A Leave that was not answered is repeated when the name belongs to somebody else, and
// when the same claim came again with its next try: it ends neither.
func TestALateRepeatOfALeaveEndsNothingElse(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		e, name := r.engine(t), nameOf(t)
		a, b := openSession(t, e, time.Minute), openSession(t, e, time.Minute)
		c, cb := mutex(name), mutex(name)
		hold(t, a, c)
		if err := a.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		r.exec(t, "DELETE FROM pawl_head WHERE name = ?", name) // as if it had been swept, or the store emptied
		hold(t, b, cb)
		if err := a.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a repeated Leave: %v", err)
		}
		again := c
		again.Try++
		if st := enter(t, a, again); st.Held {
			t.Fatal("both hold")
		}
		if err := a.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a repeated Leave: %v", err)
		}
		line, err := e.Line(t.Context(), name)
		if err != nil || len(line) != 2 || line[0].ID != cb.ID || !line[0].Held || line[1].ID != c.ID || line[1].Try != again.Try {
			t.Errorf("the line is %+v, %v", line, err)
		}
	})
}

// Several are beaten by another statement than one.
func TestABeatOfSeveralRevivesNoneThatHasExpired(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		e := own.engine(t)
		s, other := openSession(t, e, time.Minute), openSession(t, e, time.Minute)
		var live []driver.Claim
		for i := range 3 {
			holds, waits, shares := mutex(fmt.Sprint("holds/", i)), mutex(fmt.Sprint("waits/", i)), mutex(fmt.Sprint("shares/", i))
			shares.Limit = driver.All
			hold(t, s, holds)
			hold(t, s, shares)
			hold(t, other, mutex(waits.Name))
			if st := enter(t, s, waits); st.Held {
				t.Fatalf("both hold: %+v", st)
			}
			live = append(live, holds, waits, shares)
		}
		for _, c := range live[3:] {
			own.exec(t, "UPDATE "+prefix+"head SET x_until = 1 WHERE x_id = ?", c.ID)
			own.exec(t, "UPDATE "+prefix+"claim SET until = 1 WHERE id = ?", c.ID)
		}
		for i, st := range beatAll(t, s, live...) {
			if expired := i >= 3; st.Gone != expired || (st.Valid > 0) == expired {
				t.Errorf("%s: %+v", live[i].Name, st)
			}
		}
	})
}

// A beat waits for a row that a transaction has, and the claim ends there meanwhile.
func TestABeatThatWaitedForItsRowRevivesNothing(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		s := openSession(t, own.engine(t), time.Minute)
		waiting := "SELECT count(*) FROM information_schema.processlist WHERE info LIKE ?" // only this beat's begins so
		begins := "/* pawl % */ UPDATE `%"
		if r.name == "postgres" {
			waiting, begins = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ?", "UPDATE%"
		}
		for end, size := range map[string]int{"head SET x_until = 1 WHERE name = ?": 1, "claim SET until = 1 WHERE name = ?": driver.All} {
			c := mutex(fmt.Sprint("for ", size))
			c.Limit = size
			hold(t, s, c)
			tx, err := own.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), own.marked("UPDATE "+prefix+end), c.Name); err != nil {
				t.Fatal(err)
			}
			answered := make(chan driver.Standing, 1)
			go func() { // ends with its answer
				out := make([]driver.Standing, 1)
				for !out[0].Gone && out[0].Valid == 0 && t.Context().Err() == nil {
					_ = s.Beat(t.Context(), []driver.Claim{c}, out) // it waits for a second at most
				}
				answered <- out[0]
			}()
			for began := time.Now(); own.number(t, waiting, begins+prefix+"%") == 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > 30*time.Second {
					t.Fatal("no beat waits for the row")
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if st := <-answered; !st.Gone {
				t.Errorf("limit %d: %+v", size, st)
			}
		}
	})
}

// Nobody has come since; all the same it was not held until now.
func TestALeaveOfAHoldThatHasExpiredSaysSo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		s, c := openSession(t, own.engine(t), time.Minute), mutex("m")
		hold(t, s, c)
		own.exec(t, "UPDATE "+prefix+"head SET x_until = 1 WHERE name = 'm'")
		if err := s.Leave(t.Context(), c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave: %v", err)
		}
	})
}
