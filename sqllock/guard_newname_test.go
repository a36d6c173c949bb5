package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// guardKinds are claims of which two never hold the same name together: the i-th of
// several that come at once.
var guardKinds = map[string]func(name string, i int) driver.Claim{
	"mutex": func(name string, _ int) driver.Claim { return mutex(name) },
	"reader and writers": func(name string, i int) driver.Claim {
		c := mutex(name)
		if c.Limit = driver.All; i > 0 {
			c.Need = driver.All
		}
		return c
	},
	"permits": func(name string, _ int) driver.Claim {
		c := mutex(name)
		c.Need, c.Limit = 2, 3
		return c
	},
}

// Nobody has used the name before, so its first claims arrive before it has a row.
func TestTheFirstGuardsOfANameKeepOthersOut(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) { firstGuards(t, r, 5) })
}

func TestSoakTheFirstGuardsOfANameKeepOthersOut(t *testing.T) {
	d := soakTime(t)
	everywhere(t, func(t *testing.T, r *rig) {
		for begun := time.Now(); time.Since(begun) < d && !t.Failed(); {
			firstGuards(t, r, 500)
		}
	})
}

// firstGuards has several claims meet on a new name. Each that is granted guards a
// transaction, leaves the line and commits last; meanwhile nobody else may be granted.
func firstGuards(t *testing.T, r *rig, rounds int) {
	const guests = 3
	var sessions [guests]driver.Session
	for i := range sessions {
		sessions[i] = openSession(t, r.engine(t), time.Minute)
	}
	for kind, claim := range guardKinds {
		beside := 0
		for round := range rounds {
			name := fmt.Sprint(nameOf(t), round)
			var open atomic.Int64 // guarded transactions
			var together atomic.Bool
			var guests sync.WaitGroup
			start := make(chan struct{})
			for i, s := range sessions {
				guests.Go(func() {
					<-start
					if err := r.guardOnce(t.Context(), s, claim(name, i), &open, &together); err != nil {
						t.Errorf("%s, guest %d: %v", kind, i, err)
					}
				})
			}
			close(start)
			guests.Wait()
			if together.Load() {
				beside++
			}
		}
		if beside > 0 {
			t.Errorf("%s: in %d of %d rounds one was granted beside the open guard of another", kind, beside, rounds)
		}
		t.Logf("%s: %d rounds", kind, rounds)
	}
}

// The one-statement path of B begins before the name has a row, and goes on when A was
// granted, has guarded a transaction and has left: B sees a row that it did not see when
// it began, and whose guard is open.
func TestARowThatCameMeanwhileIsNotTakenBesideItsGuard(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		a, b := openSession(t, own.engine(t), time.Minute), openSession(t, own.engine(t), time.Minute)
		for _, kind := range []string{"mutex", "reader and writers"} { // permits do not use that path
			name, claim := nameOf(t), guardKinds[kind]
			ca, cb := claim(name, 0), claim(name, 1)
			goOn := own.delayInsert(t, prefix, cb)
			granted := make(chan error, 1)
			var open atomic.Bool
			go func() { // awaited below
				st, err := b.Enter(t.Context(), cb)
				for err == nil && !st.Held {
					st, err = b.Await(t.Context(), cb, st)
				}
				if err == nil && open.Load() {
					err = fmt.Errorf("granted beside an open guard: %+v", st)
				}
				granted <- err
			}()
			own.awaitDelayed(t)
			tx := own.begin(t, sql.LevelDefault)
			if err := sqllock.Guard(t.Context(), tx, &zombie{ca, hold(t, a, ca).Token}); err != nil {
				t.Fatal(err)
			}
			open.Store(true)
			left := make(chan error, 1)
			go func() { left <- a.Leave(t.Context(), ca) }() // awaited below
			if r.name == "postgres" {                        // elsewhere it waits for the commit
				select {
				case err := <-left:
					left <- err
				case <-time.After(10 * time.Second):
					t.Errorf("%s: the guard blocks Leave", kind)
				}
			}
			goOn()
			select {
			case err := <-granted:
				granted <- err
			case <-time.After(200 * time.Millisecond):
			}
			open.Store(false)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-left; err != nil {
				t.Errorf("%s: leave: %v", kind, err)
			}
			if err := <-granted; err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if err := b.Leave(t.Context(), cb); err != nil {
				t.Error(err)
			}
		}
	})
}

// delayInsert makes the server wait before it inserts the head row for c, after the
// statement has begun, until goOn is called.
func (r *rig) delayInsert(t *testing.T, prefix string, c driver.Claim) (goOn func()) {
	t.Helper()
	conn, err := r.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trigger := prefix + "delay" + c.ID[:8]
	lock, unlock := "SELECT GET_LOCK('"+trigger+"', 60)", "SELECT RELEASE_LOCK('"+trigger+"')"
	if r.name == "postgres" {
		key := "hashtext('" + trigger + "')"
		lock, unlock = "SELECT pg_advisory_lock("+key+")", "SELECT pg_advisory_unlock("+key+")"
		r.exec(t, "CREATE FUNCTION "+trigger+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.x_id = '"+c.ID+
			"' THEN PERFORM pg_advisory_xact_lock("+key+"); END IF; RETURN NEW; END $$")
		r.exec(t, "CREATE TRIGGER "+trigger+" BEFORE INSERT ON "+prefix+"head FOR EACH ROW EXECUTE FUNCTION "+trigger+"()")
	} else {
		r.exec(t, "CREATE TRIGGER "+trigger+" BEFORE INSERT ON "+prefix+"head FOR EACH ROW SET @delayed = IF(NEW.x_id = '"+c.ID+
			"', GET_LOCK('"+trigger+"', 60) + RELEASE_LOCK('"+trigger+"'), 0)")
	}
	if _, err := conn.ExecContext(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	goOn = sync.OnceFunc(func() {
		defer conn.Close()
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), unlock); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(goOn)
	return goOn
}

// awaitDelayed returns when a statement waits in the trigger of delayInsert.
func (r *rig) awaitDelayed(t *testing.T) {
	t.Helper()
	waits := "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'"
	if r.name == "postgres" {
		waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
	}
	for begun := time.Now(); r.number(t, waits) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("no statement waits")
		}
	}
}

// guardOnce holds c, guards a transaction, leaves the line and then commits. It reports
// in together whether another such transaction was open when it was granted.
func (r *rig) guardOnce(ctx context.Context, s driver.Session, c driver.Claim, open *atomic.Int64, together *atomic.Bool) error {
	st, err := s.Enter(ctx, c)
	for err == nil && !st.Held {
		st, err = s.Await(ctx, c, st)
	}
	if err != nil {
		return err
	}
	if open.Load() > 0 {
		together.Store(true)
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := sqllock.Guard(ctx, tx, &zombie{c, st.Token}); err != nil {
		return err
	}
	open.Add(1)
	left := make(chan error, 1)
	go func() { left <- s.Leave(ctx, c) }() // awaited below; on some databases it waits for the commit
	select {
	case err := <-left:
		left <- err
	case <-time.After(20 * time.Millisecond):
	}
	time.Sleep(2 * time.Millisecond) // for the others to be granted, if they can be
	open.Add(-1)
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := <-left; err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
