package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/once"
	"github.com/pawl-go/pawl/sqllock"
	"github.com/pawl-go/pawl/sqllock/mysql"
	"github.com/pawl-go/pawl/sqllock/postgres"
)

// A till is a table of the user's own in which every effect is a row: twice the same
// is seen.
type till struct {
	*rig
	c       *pawl.Client
	records driver.Records
}

func newTill(t testing.TB, r *rig) *till {
	t.Helper()
	r.table(t, "till (sale VARCHAR(150) NOT NULL, amount BIGINT NOT NULL)")
	c := openClient(t, r.url)
	records, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	return &till{r, c, records}
}

var errUndone = errors.New("undone")

// A receipt is what a sale returns.
type receipt struct{ Amount int64 }

// sell makes a sale once in a transaction of its own. If fails is not nil it is what
// the function returns after its effect; commit says what the caller then does.
func (s *till) sell(ctx context.Context, key string, amount int64, level sql.IsolationLevel, fails error, commit bool, opts ...sqllock.OnceOption) (got receipt, ran bool, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return got, false, err
	}
	defer tx.Rollback()
	got, err = sqllock.OnceTx(ctx, tx, s.records, key, func(ctx context.Context) (receipt, error) {
		ran = true
		if _, err := tx.ExecContext(ctx, s.marked("INSERT INTO till (sale, amount) VALUES (?, ?)"), key, amount); err != nil {
			return receipt{}, err
		}
		return receipt{amount}, fails
	}, opts...)
	if commit {
		err = errors.Join(err, tx.Commit())
	}
	return got, ran, err
}

func (s *till) sales(t testing.TB, key string) int64 {
	t.Helper()
	return s.number(t, "SELECT count(*) FROM till WHERE sale = ?", key)
}

func TestRecordAndEffectAreCommittedTogetherOrNeither(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, key := newTill(t, r), nameOf(t)
		if got, ran, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, false); err != nil || !ran || got.Amount != 1 {
			t.Fatalf("%+v, ran %v, %v", got, ran, err)
		}
		if rec, err := once.Find(t.Context(), s.c, key); err != nil || rec.State != "" || s.sales(t, key) != 0 {
			t.Fatalf("after a rollback there are %d sales and the record %+v, %v", s.sales(t, key), rec, err)
		}
		if got, ran, err := s.sell(t.Context(), key, 2, sql.LevelDefault, nil, true); err != nil || !ran || got.Amount != 2 {
			t.Fatalf("%+v, ran %v, %v", got, ran, err)
		}
		for range 3 {
			if got, ran, err := s.sell(t.Context(), key, 3, sql.LevelDefault, nil, true); err != nil || ran || got.Amount != 2 {
				t.Errorf("a duplicate: %+v, ran %v, %v", got, ran, err)
			}
		}
		if rec, err := once.Find(t.Context(), s.c, key); err != nil || rec.State != once.Done || s.sales(t, key) != 1 {
			t.Errorf("%d sales and the record %+v, %v", s.sales(t, key), rec, err)
		}
		got, err := once.Do(t.Context(), s.c, key, func(context.Context) (receipt, error) {
			t.Error("once.Do runs what OnceTx has done")
			return receipt{}, nil
		})
		if err != nil || got.Amount != 2 {
			t.Errorf("once.Do: %+v, %v", got, err)
		}
	})
}

// Every key is asked for by many at once, of whom some are undone in the end, one way
// or another. No deadlock may be met on the way.
func TestManyDuplicatesInTransactionsHaveOneEffect(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, base := newTill(t, r), nameOf(t)
		const clients, keys = 8, 12
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for _, k := range rand.Perm(keys) {
					key := fmt.Sprint(base, "/", k)
					for {
						var fails error
						commit := true
						switch rand.IntN(4) {
						case 0:
							fails, commit = errUndone, false
						case 1:
							commit = false
						}
						_, ran, err := s.sell(t.Context(), key, 1, sql.LevelDefault, fails, commit)
						if err != nil && !errors.Is(err, errUndone) {
							t.Errorf("%s: %v", key, err)
							return
						}
						if err == nil && (commit || !ran) {
							break
						}
					}
				}
			})
		}
		wg.Wait()
		for k := range keys {
			if n := s.sales(t, fmt.Sprint(base, "/", k)); n != 1 {
				t.Errorf("key %d: %d effects", k, n)
			}
		}
	})
}

func TestADuplicateWaitsForTheTransactionsEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s := newTill(t, r)
		for _, commits := range []bool{true, false} {
			key := nameOf(t)
			tx, err := r.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (receipt, error) { return receipt{7}, nil }); err != nil {
				t.Fatal(err)
			}
			type answer struct {
				receipt
				ran bool
				err error
			}
			got := make(chan answer, 1)
			go func() {
				rc, ran, err := s.sell(t.Context(), key, 8, sql.LevelDefault, nil, true)
				got <- answer{rc, ran, err}
			}()
			select {
			case a := <-got:
				t.Fatalf("it did not wait: %+v", a)
			case <-time.After(200 * time.Millisecond):
			}
			want := answer{receipt{8}, true, nil}
			if commits {
				want = answer{receipt{7}, false, nil}
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err != nil {
				t.Fatal(err)
			}
			if a := <-got; a != want {
				t.Errorf("committed %v: %+v", commits, a)
			}
		}
	})
}

// A duplicate gives up while it waits: its ctx's error says so on every database.
func TestADuplicateThatGivesUpSaysSo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, key := newTill(t, r), nameOf(t)
		begin := func() *sql.Tx {
			tx, err := r.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx
		}
		run := func(context.Context) (receipt, error) { return receipt{7}, nil }
		first, second := begin(), begin()
		if _, err := sqllock.OnceTx(t.Context(), first, s.records, key, run); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := sqllock.OnceTx(ctx, second, s.records, key, run); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := first.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// Under stricter levels a duplicate may be refused because its snapshot is old; begun
// again it gets the result. None runs twice.
func TestOnceTxUnderEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		s := newTill(t, r)
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			key := nameOf(t)
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					for {
						got, _, err := s.sell(t.Context(), key, 5, level, nil, true)
						if errors.Is(err, driver.ErrConflict) && r.name == "postgres" && level != sql.LevelReadCommitted {
							continue
						}
						if err != nil || got.Amount != 5 {
							t.Errorf("%v: %+v, %v", level, got, err)
						}
						return
					}
				})
			}
			wg.Wait()
			if n := s.sales(t, key); n != 1 {
				t.Errorf("%v: %d effects", level, n)
			}
		}
	})
}

// The transaction has looked at the database before the first was committed.
func TestADuplicateWithAnOldSnapshotDoesNotRun(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		s := newTill(t, r)
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			key := nameOf(t)
			tx, err := r.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			var n int64
			if err := tx.QueryRowContext(t.Context(), r.marked("SELECT count(*) FROM till WHERE sale = ?"), key).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.sell(t.Context(), key, 4, sql.LevelDefault, nil, true); err != nil {
				t.Fatal(err)
			}
			got, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (receipt, error) {
				t.Errorf("%v: it runs again", level)
				return receipt{}, nil
			})
			if err == nil && got.Amount != 4 || err != nil && !errors.Is(err, driver.ErrConflict) {
				t.Errorf("%v: %+v, %v", level, got, err)
			}
			if level == sql.LevelReadCommitted && err != nil {
				t.Errorf("%v: %v", level, err)
			}
			_ = tx.Rollback()
		}
	})
}

func TestOnceTxRemembersOnlyWhatItShould(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s := newTill(t, r)
		find := func(key string) once.Record {
			t.Helper()
			rec, err := once.Find(t.Context(), s.c, key)
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}
		key := nameOf(t)
		if _, _, err := s.sell(t.Context(), key, 1, sql.LevelDefault, errUndone, true); !errors.Is(err, errUndone) || find(key).State != "" {
			t.Errorf("an error whose transaction was committed all the same: %v, %+v", err, find(key))
		}
		key = nameOf(t)
		if _, _, err := s.sell(t.Context(), key, 1, sql.LevelDefault, once.Permanent(errUndone), true); !errors.Is(err, errUndone) {
			t.Errorf("a permanent error: %v", err)
		}
		_, ran, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, true)
		if e, ok := errors.AsType[*once.Error](err); ran || !errors.Is(err, once.ErrFailed) || !ok || e.Record.Failure != "undone" {
			t.Errorf("a duplicate of a permanent error: ran %v, %v", ran, err)
		}
		key = nameOf(t)
		if _, _, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, true, sqllock.WithPayload([]byte("one"))); err != nil {
			t.Fatal(err)
		}
		_, ran, err = s.sell(t.Context(), key, 2, sql.LevelDefault, nil, true, sqllock.WithPayload([]byte("two")))
		if e, ok := errors.AsType[*once.Error](err); ran || !errors.Is(err, once.ErrMismatch) || !ok || e.Record.State != once.Done || string(e.Record.Result) != `{"Amount":1}` {
			t.Errorf("another payload: ran %v, %v", ran, err)
		}
		key = nameOf(t)
		for i := range 2 { // the first has ended when the second comes
			if _, ran, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, true, sqllock.WithKeep(time.Millisecond)); err != nil || !ran {
				t.Errorf("call %d, with nothing kept: ran %v, %v", i, ran, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// A result that cannot be kept, a panic and a step back to before OnceTx: nothing is
// remembered, whatever the caller does then.
func TestOnceTxThatDoesNotComeToItsEndLeavesNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s := newTill(t, r)
		try := func(what string, run func(tx *sql.Tx, key string) error) {
			t.Helper()
			key := nameOf(t)
			tx, err := r.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			err = run(tx, key)
			if e := tx.Commit(); err == nil || e != nil {
				t.Errorf("%s: %v, and the commit: %v", what, err, e)
			}
			if rec, err := once.Find(t.Context(), s.c, key); err != nil || rec.State != "" {
				t.Errorf("%s: kept %+v, %v", what, rec, err)
			}
		}
		try("too large", func(tx *sql.Tx, key string) error {
			v, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (string, error) { return strings.Repeat("x", driver.MaxRecord), nil })
			if !errors.Is(err, once.ErrTooLarge) || len(v) != driver.MaxRecord {
				t.Errorf("a result of %d bytes: %v", len(v), err)
			}
			return err
		})
		try("without JSON", func(tx *sql.Tx, key string) error {
			_, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (func(), error) { return nil, nil })
			if !errors.Is(err, once.ErrCodec) {
				t.Errorf("a function: %v", err)
			}
			return err
		})
		try("a panic", func(tx *sql.Tx, key string) (err error) {
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			_, err = sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (int, error) { panic("no") })
			return err
		})
		try("an ended context", func(tx *sql.Tx, key string) error {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := sqllock.OnceTx(ctx, tx, s.records, key, func(context.Context) (int, error) { cancel(); return 0, ctx.Err() })
			return err
		})
		try("a step back", func(tx *sql.Tx, key string) error {
			if _, err := tx.ExecContext(t.Context(), "SAVEPOINT earlier"); err != nil {
				t.Fatal(err)
			}
			_, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(ctx context.Context) (int, error) {
				_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT earlier")
				return 0, err
			})
			if !errors.Is(err, driver.ErrGone) {
				t.Errorf("a step back: %v", err)
			}
			return err
		})
	})
}

// A key that once.Do has begun is not OnceTx's to run.
func TestOnceTxDoesNotRunWhatOnceDoHasBegun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, key := newTill(t, r), nameOf(t)
		_, err := once.Do(t.Context(), s.c, key, func(ctx context.Context) (receipt, error) {
			_, ran, err := s.sell(ctx, key, 1, sql.LevelDefault, nil, true)
			if ran || !errors.Is(err, once.ErrRunning) {
				t.Errorf("beside once.Do: ran %v, %v", ran, err)
			}
			return receipt{9}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, ran, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, true); err != nil || ran || got.Amount != 9 {
			t.Errorf("after once.Do: %+v, ran %v, %v", got, ran, err)
		}
	})
}

func TestOnceTxTakesPGXTransactionsAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newTill(t, rigOf(t, 0))
	pool, err := pgxpool.New(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	key, runs := nameOf(t), 0
	for range 2 {
		var got []byte
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			got, err = sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) ([]byte, error) { runs++; return []byte("x"), nil })
			return err
		})
		if err != nil || string(got) != "x" || runs != 1 {
			t.Errorf("%q after %d runs, %v", got, runs, err)
		}
	}
	fn := func(context.Context) (int, error) { t.Error("it runs"); return 0, nil }
	for _, wrong := range []any{s.db, pool, nil, 7} {
		if _, err := sqllock.OnceTx(t.Context(), wrong, s.records, nameOf(t), fn); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%T: %v", wrong, err)
		}
	}
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	other, err := openClient(t, "mem:").Records()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqllock.OnceTx(t.Context(), tx, other, "k", fn); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("the records of another engine: %v", err)
	}
	for _, key := range []string{"", "a\x00", strings.Repeat("k", 2000)} {
		if _, err := sqllock.OnceTx(t.Context(), tx, s.records, key, fn); err == nil {
			t.Errorf("a key of %d bytes is taken", len(key))
		}
	}
	if _, err := sqllock.OnceTx(t.Context(), tx, s.records, "k", fn, sqllock.WithKeep(-1)); err == nil {
		t.Error("a result is kept for less than nothing")
	}
}

// The record of a key has ended, and a transaction that is open puts another in its
// place: who beats, and would sweep that record, does not wait for it.
func TestABeatDoesNotWaitForARecordThatIsBeingReplaced(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		s, key := newTill(t, r), nameOf(t)
		if _, _, err := s.sell(t.Context(), key, 1, sql.LevelDefault, nil, true, sqllock.WithKeep(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // it has ended
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
		session, c := openSession(t, r.engine(t), time.Minute), mutex(nameOf(t))
		hold(t, session, c)
		beaten := make(chan error, 1)
		go func() { beaten <- session.Beat(t.Context(), []driver.Claim{c}, make([]driver.Standing, 1)) }() // its first sweeps
		select {
		case err := <-beaten:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the beat waits for the transaction")
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
}

// A function that steps back to before OnceTx has undone the note that it runs, and
// with it the exclusion of others: what another has done and committed meanwhile
// stays, and the function's own effect does not.
func TestOnceTxThatStepsBackLeavesAnothersRecordAlone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, level := newTill(t, r), sql.LevelReadCommitted
		if r.name == "sqlite" {
			level = sql.LevelDefault
		}
		for i, fails := range []error{nil, errUndone, once.Permanent(errUndone)} {
			key := nameOf(t)
			tx := r.begin(t, level)
			if _, err := tx.ExecContext(t.Context(), "SAVEPOINT earlier"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			_, err := sqllock.OnceTx(t.Context(), tx, s.records, key, func(ctx context.Context) (receipt, error) {
				if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT earlier"); err != nil {
					t.Error(err)
				}
				go func() {
					_, _, err := s.sell(t.Context(), key, 1, level, nil, true)
					done <- err
				}()
				select {
				case err := <-done:
					done <- err
				case <-time.After(500 * time.Millisecond): // it waits for us all the same
				}
				_, err := tx.ExecContext(ctx, r.marked("INSERT INTO till (sale, amount) VALUES (?, ?)"), key, 2)
				return receipt{2}, errors.Join(err, fails)
			})
			if err == nil {
				t.Errorf("case %d: no error", i)
			}
			_ = tx.Commit() // as the careless do
			if err := <-done; err != nil {
				t.Errorf("case %d: the other: %v", i, err)
			}
			got, ran, err := s.sell(t.Context(), key, 3, level, nil, true)
			if ran || err != nil || got.Amount != 1 {
				t.Errorf("case %d: a duplicate: ran %v, %+v, %v", i, ran, got, err)
			}
		}
	})
}

// fullPool opens as many transactions as a pool has connections, but for so many
// that are spared, and returns the records of an engine on the same pool.
func (r *rig) fullPool(t *testing.T, conns, spared int) (driver.Records, []*sql.Tx) {
	t.Helper()
	db, err := sql.Open(r.driver, r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(conns)
	records := r.engineOn(t, db).(driver.Records)
	txs := make([]*sql.Tx, conns-spared)
	for i := range txs {
		if txs[i], err = db.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = txs[i].Rollback() })
	}
	return records, txs
}

// engineOn returns an engine on a pool of the user's; on SQLite one of its own.
func (r *rig) engineOn(t *testing.T, db *sql.DB) (e driver.Engine) {
	t.Helper()
	var err error
	switch r.name {
	case "postgres":
		e, err = postgres.NewDB(db)
	case "sqlite":
		return r.engine(t)
	default:
		e, err = mysql.New(db)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestOnceTxNeedsNoSecondConnectionOfThePool(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s, conns := newTill(t, r), 10
		if r.name == "sqlite" {
			conns = 1 // one at a time has the file
		}
		for _, spared := range []int{0, min(1, conns-1)} {
			records, txs := r.fullPool(t, conns, spared)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			base := nameOf(t)
			var wg sync.WaitGroup
			for i, tx := range txs {
				key := fmt.Sprint(base, "/", i/2) // each is asked for twice
				wg.Go(func() {
					_, err := sqllock.OnceTx(ctx, tx, records, key, func(ctx context.Context) (int, error) {
						_, err := tx.ExecContext(ctx, r.marked("INSERT INTO till (sale, amount) VALUES (?, 1)"), key)
						return 1, err
					})
					if err == nil {
						err = tx.Commit()
					}
					if err != nil {
						t.Errorf("%d of %d connections spared: %v", spared, conns, err)
					}
				})
			}
			wg.Wait()
			for i := range (len(txs) + 1) / 2 {
				if n := s.sales(t, fmt.Sprint(base, "/", i)); n != 1 {
					t.Errorf("key %d: %d effects", i, n)
				}
			}
		}
	})
}
