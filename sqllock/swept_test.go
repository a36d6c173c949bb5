package sqllock_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

type sweeper interface{ Sweep(context.Context) error }

func sweep(t testing.TB, e driver.Engine) {
	t.Helper()
	if err := e.(sweeper).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ways are how a claim comes to a name without a row.
var ways = map[string]func(t *testing.T, s driver.Session, name string) uint64{
	"one that queues": func(t *testing.T, s driver.Session, name string) uint64 { return use(t, s, mutex(name)) },
	"one that tries":  func(t *testing.T, s driver.Session, name string) uint64 { return use(t, s, tries(mutex(name))) },
	"a reader": func(t *testing.T, s driver.Session, name string) uint64 {
		c := mutex(name)
		c.Limit = driver.All
		return use(t, s, c)
	},
	"several at once": func(t *testing.T, s driver.Session, name string) uint64 {
		cs := []driver.Claim{mutex(name), mutex(name + "/beside")}
		all, err := s.(driver.Multi).EnterAll(t.Context(), cs)
		if err != nil || !all[0].Held || !all[1].Held {
			t.Fatalf("EnterAll: %+v, %v", all, err)
		}
		for _, c := range cs {
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		return all[0].Token
	},
}

func use(t *testing.T, s driver.Session, c driver.Claim) uint64 {
	t.Helper()
	st := hold(t, s, c)
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return st.Token
}

// ahead is ten days.
const ahead = int64(10 * 24 * time.Hour / time.Microsecond)

// The server's clock was ahead when a name was last used, and is right again. What the
// row itself says is enough: no other row knows of that token.
func TestTokensRiseOnARowWhoseClockWasAhead(t *testing.T) {
	t.Parallel()
	ways := maps.Clone(ways)
	ways["one that waits"] = func(t *testing.T, s driver.Session, name string) uint64 {
		first, second := mutex(name), mutex(name)
		held := hold(t, s, first)
		if st := enter(t, s, second); st.Held {
			t.Fatalf("held beside another: %+v", st)
		}
		if err := s.Leave(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		st := take(t, s, second)
		if st.Token <= held.Token {
			t.Errorf("token %d behind %d", st.Token, held.Token)
		}
		if err := s.Leave(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		return st.Token
	}
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		s := openSession(t, own.engine(t), time.Minute)
		for way, enter := range ways {
			last := enter(t, s, way) + uint64(ahead)
			own.exec(t, "UPDATE "+prefix+"head SET fence = fence + ?, x_token = x_token + ? WHERE name = ?", ahead, ahead, way)
			own.exec(t, "UPDATE "+prefix+"head SET fence = 0 WHERE name = ''")
			fresh := openSession(t, own.engine(t), time.Minute) // another process, which has not seen the row
			for i, next := range []driver.Session{s, s, fresh, fresh} {
				token := enter(t, next, way)
				if token <= last {
					t.Errorf("%s, use %d: token %d after %d", way, i, token, last)
				}
				last = token
			}
		}
	})
}

// The server's clock was ahead when a name was last used. It is right again when the
// name's row has been idle for long and is swept.
func TestTokensRiseOverASweptRowWhoseClockWasAhead(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		e := own.engine(t)
		s := openSession(t, e, time.Minute)
		for way, enter := range ways {
			for _, fresh := range []bool{false, true} {
				before := enter(t, s, way) + uint64(ahead)
				own.exec(t, "UPDATE "+prefix+"head SET fence = fence + ?, x_token = x_token + ?, x_since = ?, x_until = ? WHERE name = ?", ahead, ahead, -far, -far, way)
				sweep(t, e)
				if n := own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name = ?", way); n != 0 {
					t.Fatalf("%s: the row was not swept", way)
				}
				next := s
				if fresh { // another process, which has not seen the row
					next = openSession(t, own.engine(t), time.Minute)
				}
				if after := enter(t, next, way); after <= before {
					t.Errorf("%s: token %d after %d", way, after, before)
				}
			}
		}
	})
}

// The same by the clock itself.
func TestTokensRiseOverASweepAndAClockThatIsCorrected(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, c *testserver.Clock) (*rig, error){
		"postgres": func(t *testing.T, c *testserver.Clock) (*rig, error) {
			return postgresRig(testserver.PostgreSQLOn(t, c)), nil
		},
		"mariadb": func(t *testing.T, c *testserver.Clock) (*rig, error) { return mysqlRig(testserver.MariaDBOn(t, c)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rigOf(t, 0) // skips where there are no servers
			clock := testserver.NewClock(t)
			r, err := start(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			r.migrate(t)
			e := r.engine(t)
			s := openSession(t, e, time.Minute)
			for way, enter := range ways {
				clock.Step(3 * time.Hour)
				before := enter(t, s, way)
				clock.Step(2 * time.Hour)
				sweep(t, e)
				clock.Step(-5 * time.Hour)
				if after := enter(t, s, way); after <= before {
					t.Errorf("%s: token %d after %d", way, after, before)
				}
			}
		})
	}
}

// The row with the highest token is swept first.
func TestTokensRiseOverASweptRowWhateverIsSweptLater(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		e := own.engine(t)
		s := openSession(t, e, time.Minute)
		use(t, s, mutex("low"))
		before := use(t, s, mutex("high")) + uint64(ahead)
		own.exec(t, "UPDATE "+prefix+"head SET fence = fence + ?, x_token = x_token + ? WHERE name = 'high'", ahead, ahead)
		for _, name := range []string{"high", "low"} {
			own.exec(t, "UPDATE "+prefix+"head SET x_since = ?, x_until = ? WHERE name = ?", -far, -far, name)
			sweep(t, e)
			if n := own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name = ?", name); n != 0 {
				t.Fatalf("the row of %s was not swept", name)
			}
		}
		if after := use(t, s, mutex("high")); after <= before {
			t.Errorf("token %d after %d", after, before)
		}
	})
}

// Names are taken for the first time while rows are swept, under marks that rise.
func TestTokensRiseWhileRowsAreSwept(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		stop := make(chan struct{})
		done := make(chan struct{})
		e := own.engine(t)
		go func() { // ends with stop; awaited below
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = own.db.ExecContext(t.Context(), own.marked("UPDATE "+prefix+"head SET fence = fence + 50000000, x_since = ?, x_until = ?"+
					" WHERE x_id = '' AND used = 0 AND waiting = 0 AND name <> ''"), -far, -far)
				time.Sleep(rand.N(4 * time.Millisecond)) // in which a name may be taken with the raised token
				if err := e.(sweeper).Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}()
		s := openSession(t, own.engine(t), time.Minute)
		last := map[string]uint64{}
		for range 40 {
			for way, enter := range ways {
				if way == "one that tries" { // a row that is being swept is as good as held
					continue
				}
				time.Sleep(rand.N(4 * time.Millisecond)) // a row that is never idle is never swept
				token := enter(t, s, way)
				if token <= last[way] {
					t.Errorf("%s: token %d after %d", way, token, last[way])
				}
				last[way] = token
			}
		}
		close(stop)
		<-done
	})
}
