package sqllock_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// An operator breaks a hold whose guard is open: that waits for the commit, and asks a
// few times a second.
func TestEvictBehindAGuardAsksNowAndThen(t *testing.T) {
	r := pushed(t)
	e := r.engine(t)
	s, c := openSession(t, e, time.Minute), mutex(nameOf(t))
	tx := r.begin(t, sql.LevelDefault)
	if err := sqllock.Guard(t.Context(), tx, &zombie{c, hold(t, s, c).Token}); err != nil {
		t.Fatal(err)
	}
	line, err := e.Line(t.Context(), c.Name)
	if err != nil || len(line) != 1 {
		t.Fatalf("%+v, %v", line, err)
	}
	operator := r.engine(t)
	evicted := make(chan error, 1)
	go func() { evicted <- operator.Evict(t.Context(), line[0]) }() // awaited below
	time.Sleep(3 * time.Second)
	asked := operator.(retried).Retried()
	if asked == 0 || asked > 80 {
		t.Errorf("asked %d times in 3 s", asked)
	}
	t.Logf("asked %d times in 3 s", asked)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-evicted; err != nil {
		t.Error(err)
	}
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Gone {
		t.Errorf("the evicted holder's beat: %+v, %v", out[0], err)
	}
}

// ROLLBACK TO a savepoint from before the guard ends the guard, since the database drops
// the row's lock with what else is undone: PostgreSQL always, MySQL and MariaDB if the
// transaction had used no table before. A guard after it holds as the first did.
func TestAGuardIsRepeatedAfterARollbackToASavepoint(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, c := openSession(t, r.engine(t), time.Minute), mutex(nameOf(t))
		lease := &zombie{c, hold(t, s, c).Token}
		tx := r.begin(t, sql.LevelDefault)
		exec := func(text string) {
			t.Helper()
			if _, err := tx.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		guard := func() {
			t.Helper()
			if err := sqllock.Guard(t.Context(), tx, lease); err != nil {
				t.Fatal(err)
			}
		}
		exec("SAVEPOINT before_guard")
		guard()
		exec("ROLLBACK TO SAVEPOINT before_guard")
		if r.name != "sqlite" && r.isGuarded(t, c) {
			t.Error("a guard outlives the rollback to a savepoint from before it, and docs/sql.md says that it does not")
		}
		guard()
		if r.name != "sqlite" && !r.isGuarded(t, c) { // there the whole file is locked
			t.Error("the second guard does not hold")
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	})
}

// isGuarded reports whether an open transaction has the head row of a claim locked.
func (r *rig) isGuarded(t *testing.T, c driver.Claim) bool {
	t.Helper()
	tx := r.begin(t, sql.LevelDefault)
	defer tx.Rollback()
	var n int64
	err := tx.QueryRowContext(t.Context(), r.marked("SELECT fence FROM pawl_head WHERE name = ? FOR UPDATE NOWAIT"), c.Name).Scan(&n)
	if err == nil {
		return false
	}
	t.Logf("the row: %v", err)
	return true
}
