package sqllock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/sqllock"
)

// idle writes a row that has been idle for long straight into the table, with a token
// above all that were swept.
func (r *rig) idle(ctx context.Context, prefix, name string) error {
	_, err := r.db.ExecContext(ctx, r.marked("INSERT INTO "+prefix+`head (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
		x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
		VALUES (?, ?, '', 0, 0, '', '', '', 0, 0, 0, ?, 0, 0, 0, 0)`), []byte(name), time.Now().UnixMicro(), -far)
	return err
}

// sweeping sweeps rows that became idle just now, again and again, until stop is called.
func (r *rig) sweeping(t *testing.T, prefix string) (stop func()) {
	e := r.engine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // stop ends it and waits for it
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) { // beats do it once a second
			if err := r.idle(ctx, prefix, "idle/"+newID()); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			_ = e.(sweeper).Sweep(ctx)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// tryFresh tries names that nobody has ever used for a while, not counting what the
// machine stood still, and returns how many were had and how many were not.
func tryFresh(t *testing.T, s driver.Session, while time.Duration) (had, refused int) {
	t.Helper()
	watch := stalltest.Start()
	defer watch.End()
	for begun := time.Now(); time.Since(begun)-watch.Lost() < while; time.Sleep(5 * time.Millisecond) {
		if enter(t, s, tries(mutex("fresh/"+newID()))).Held {
			had++
		} else {
			refused++
		}
	}
	return had, refused
}

// freeNamesAreHad tries free names before something happens and, while rows are swept,
// after it.
func freeNamesAreHad(t *testing.T, r *rig, prefix string, happens func()) {
	t.Helper()
	s := openSession(t, r.engine(t), time.Minute)
	const while = 500 * time.Millisecond
	before, _ := tryFresh(t, s, while)
	happens()
	defer r.sweeping(t, prefix)()
	then, refused := tryFresh(t, s, 3*while)
	t.Logf("%d free names were had before, %d in three times as long then, when %d were refused", before, then, refused)
	if refused > 0 || then < before {
		t.Errorf("%d free names were had before, %d in three times as long then, when %d were refused", before, then, refused)
	}
}

// waitsForRow returns when a statement on the tables waits for a row.
func (r *rig) waitsForRow(t *testing.T, prefix string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(150 * time.Millisecond) { // within 100 ms the server tells the same again
		if r.number(t, "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE ?",
			"%"+prefix+"head%") > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no statement waits for a row")
		}
	}
}

// sweepUntilGone sweeps until a row is gone, and returns how often it did.
func (r *rig) sweepUntilGone(t *testing.T, prefix, name string) (sweeps int) {
	t.Helper()
	e := r.engine(t)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		sweep(t, e)
		sweeps++
		if r.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name = ?", []byte(name)) == 0 {
			return sweeps
		}
		if time.Now().After(end) {
			t.Fatalf("a row was not swept by %d sweeps", sweeps)
		}
	}
}

// A row that a user's transaction holds keeps nobody from other names, whoever waits
// for it and whatever is swept meanwhile.
func TestASweepBlocksNoFreeName(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		if !r.polls() {
			return // making a row locks no other row there
		}
		t.Run("while a guarded name is waited for", func(t *testing.T) {
			own, prefix := r.tables(t)
			name, holder := nameOf(t), openSession(t, own.engine(t), time.Minute)
			c := mutex(name)
			st := hold(t, holder, c)
			tx, err := own.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if err := sqllock.Guard(t.Context(), tx, &zombie{c, st.Token}); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			freeNamesAreHad(t, own, prefix, func() {
				for range 3 { // each in a process that has not seen the row
					waiter := openSession(t, own.engine(t), time.Minute)
					wg.Go(func() { _, _ = waiter.Enter(ctx, mutex(name)) }) // until ctx ends
				}
				own.waitsForRow(t, prefix)
			})
			if err := own.idle(t.Context(), prefix, "idle/last"); err != nil {
				t.Fatal(err)
			}
			sweeps := own.sweepUntilGone(t, prefix, "idle/last")
			t.Logf("it took %d sweeps to remove a row", sweeps)
		})
		t.Run("while an idle row is held", func(t *testing.T) {
			own, prefix := r.tables(t)
			// Its name comes before all others: where a page of the table is split at a row
			// that is held, InnoDB locks the names right before it too.
			if err := errors.Join(own.idle(t.Context(), prefix, "a/held"), own.idle(t.Context(), prefix, "idle/beside")); err != nil {
				t.Fatal(err)
			}
			tx, err := own.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			var one int // as once.Tx does with the row of its key
			if err := tx.QueryRowContext(t.Context(), "SELECT 1 FROM "+prefix+"head WHERE name = 'a/held' FOR UPDATE").Scan(&one); err != nil {
				t.Fatal(err)
			}
			freeNamesAreHad(t, own, prefix, func() {})
			if n := own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name = 'idle/beside'"); n != 0 {
				t.Error("a row beside the one that is held was not swept")
			}
		})
	})
}

// A record that a user's transaction holds stays, and the others go.
func TestASweepPassesARecordThatIsHeld(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		if !r.polls() {
			return // the others wait there, as long as a beat lets them
		}
		own, prefix := r.tables(t)
		for _, name := range []string{"a", "b", "c"} {
			own.exec(t, "INSERT INTO "+prefix+"record (name, version, value, until) VALUES (?, 1, '', 1)", name)
		}
		tx, err := own.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var one int
		if err := tx.QueryRowContext(t.Context(), "SELECT 1 FROM "+prefix+"record WHERE name = 'b' FOR UPDATE").Scan(&one); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := own.engine(t).(sweeper).Sweep(ctx); err != nil {
			t.Error(err)
		}
		if n := own.number(t, "SELECT count(*) FROM "+prefix+"record"); n != 1 {
			t.Errorf("%d records are left", n)
		}
	})
}

// Those who take new names share the row in which swept tokens are noted, for as long
// as a commit takes on their disk. Where there is always one, a sweep finds its moment
// all the same.
func TestRowsAreSweptWhileNewNamesAreTakenWithoutPause(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		if !r.polls() {
			return // making a row locks no other row there
		}
		own, prefix := r.tables(t)
		e := own.engine(t)
		openSession(t, e, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for range 8 {
			wg.Go(func() { // ends with ctx
				for ctx.Err() == nil {
					tx, err := own.db.BeginTx(ctx, nil)
					if err != nil {
						continue
					}
					_, _ = tx.ExecContext(ctx, "SELECT fence FROM "+prefix+"head WHERE name = '' LOCK IN SHARE MODE")
					time.Sleep(3 * time.Millisecond)
					_ = tx.Commit()
				}
			})
		}
		const rounds = 50
		swept := 0
		for n := range rounds {
			name := fmt.Sprint("idle/", n)
			if err := own.idle(t.Context(), prefix, name); err != nil {
				t.Fatal(err)
			}
			sweep(t, e)
			if own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name = ?", []byte(name)) == 0 {
				swept++
			}
		}
		t.Logf("%d of %d sweeps found their moment", swept, rounds)
		if swept < rounds/5 {
			t.Errorf("%d of %d sweeps found their moment", swept, rounds)
		}
	})
}
