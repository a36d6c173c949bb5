package postgres

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// What grants first takes a lock that conflicts with a guard's, KEY SHARE, and so does
// what ends a hold or deletes a row. What does neither takes no such lock on a hold: it
// would wait for the guarded transaction, and others behind it. The test runs every
// statement in every state of a line, and reads which rows are locked against guards then.
func TestEveryStatementKeepsTheRuleOfGuards(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	e, err := New(pool, WithTablePrefix("guardlocks_"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	rival, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Release()
	guard, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	// A statement that waits for a guard would wait for ever; it fails instead.
	if _, err := conn.Exec(t.Context(), "SET lock_timeout = '3s'"); err != nil {
		t.Fatal(err)
	}
	defer conn.Exec(context.WithoutCancel(t.Context()), "RESET lock_timeout")
	x := &guardLocks{T: t, tables: e.store.tables, conn: conn.Conn(), rival: rival.Conn(), guard: guard.Conn()}
	granted := map[string]bool{}
	statements := lineStatements(t, e.store)
	for _, q := range statements {
		for _, state := range slices.Sorted(maps.Keys(lineStates)) {
			if x.check(q, state) {
				granted[q.Name] = true
			}
			x.checkGuarded(q, state, x.tables.head+" WHERE name = 'n'")
			x.checkGuarded(q, state, x.tables.claim+" WHERE name = 'n' AND held = 1") // a claim that waits has no guard
		}
	}
	if want := []string{"admit_shared", "grant_next", "promote", "take_free"}; !slices.Equal(slices.Sorted(maps.Keys(granted)), want) {
		t.Errorf("granted by %v, want %v", slices.Sorted(maps.Keys(granted)), want)
	}
	if x.waited == 0 {
		t.Error("pg_locks showed no guard that waits")
	}
	t.Logf("%d statements in %d states, pg_locks showed %d guards that wait", len(statements), len(lineStates), x.waited)
}

// lineStatements returns the statements of this dialect about lines.
func lineStatements(t *testing.T, s *store) (all []*sqlstore.Statement) {
	t.Helper()
	d := dialect(s)
	texts := map[string]string{}
	for _, dir := range []string{"../internal/sqlline/sql", "sql"} { // the dialect's own replace the shared ones
		paths, err := filepath.Glob(dir + "/*.sql")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(path), ".sql")
			texts[name] = string(b)
			if dir != "sql" { // a beat that waits uses the shared text
				texts[name+"_wait"] = string(b)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		isBeat := name == "beat_hold_wait" || name == "beat_claim_wait"
		if slices.Contains(d.Without, name) || strings.HasSuffix(name, "_wait") && !isBeat || strings.HasPrefix(name, "guard_") {
			continue
		}
		q, err := d.Translate(texts[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q.Name, q.Text = name, s.text(q)
		if strings.Contains(q.Text, s.tables.head) || strings.Contains(q.Text, s.tables.claim) {
			all = append(all, q)
		}
	}
	return all
}

// lineStates are the rows of the name "n": the head's exclusive holder ("": none) with
// its time left in seconds, used, and claims as "id need lim held left".
var lineStates = map[string]struct {
	holder string
	left   int
	claims []string
}{
	"free":                           {},
	"held":                           {holder: "me", left: 60},
	"held by another":                {holder: "other", left: 60},
	"held, waiting":                  {holder: "other", left: 60, claims: []string{"me 1 1 0 60"}},
	"expired":                        {holder: "other", left: -1},
	"expired, waiting":               {holder: "other", left: -1, claims: []string{"me 1 1 0 60"}},
	"released, waiting":              {claims: []string{"me 1 1 0 60", "other 1 1 0 60"}},
	"released, a reader waiting":     {claims: []string{"me 1 9 0 60", "other 1 9 0 60"}},
	"released, an expired claim":     {claims: []string{"me 1 1 0 -1"}},
	"a reader":                       {claims: []string{"me 1 9 1 60"}},
	"two readers":                    {claims: []string{"other 1 9 1 60", "me 1 9 1 60"}},
	"a reader, a writer waiting":     {claims: []string{"other 1 9 1 60", "me 9 9 0 60"}},
	"a reader, another waiting":      {claims: []string{"other 1 9 1 60", "me 1 9 0 60"}},
	"an expired reader":              {claims: []string{"other 1 9 1 -1"}},
	"an expired reader, and waiting": {claims: []string{"other 1 9 1 -1", "me 9 9 0 60"}},
}

// guardLocks runs statements on conn, and looks at their locks on rival. A guard that
// may have to wait begins on guard.
type guardLocks struct {
	*testing.T
	tables             tables
	conn, rival, guard *pgx.Conn
	waited             int // guards that pg_locks showed to wait
}

// a line's rows, by "head" or the claim's id: "" if it is gone, else who holds it.
type lineRows map[string]string

// prepare makes the rows of a state.
func (x *guardLocks) prepare(state string) {
	x.Helper()
	l := lineStates[state]
	used, waiting := 0, 0
	texts := []string{"DELETE FROM " + x.tables.head, "DELETE FROM " + x.tables.claim,
		"INSERT INTO " + x.tables.head + " VALUES ('', 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0)"}
	for i, claim := range l.claims {
		var id string
		var need, lim, held, left int
		if _, err := fmt.Sscan(claim, &id, &need, &lim, &held, &left); err != nil {
			x.Fatal(err)
		}
		used, waiting = used+held, waiting+1-held
		texts = append(texts, fmt.Sprintf("INSERT INTO %s VALUES ('n', %d, '%s', 1, '', '', '', %d, %d, 1, %d, 0, %s + %d)",
			x.tables.claim, 20+i, id, need, lim, held, micros, left*1_000_000))
	}
	until := "0"
	if l.holder != "" {
		until = fmt.Sprintf("%s + %d", micros, l.left*1_000_000)
	}
	texts = append(texts, fmt.Sprintf("INSERT INTO %s VALUES ('n', 30, '%s', 1, 10, '', '', '', 1, 1, 1, 0, %s, %d, %d, 0)",
		x.tables.head, l.holder, until, used, waiting))
	for _, text := range texts {
		if _, err := x.rival.Exec(x.Context(), text); err != nil {
			x.Fatal(err)
		}
	}
}

// rows reads the line as a connection sees it. With unlocked it reads the rows only that
// a guard would not have to wait for.
func (x *guardLocks) rows(c *pgx.Conn, unlocked bool) lineRows {
	x.Helper()
	lock := ""
	if unlocked {
		lock = " FOR KEY SHARE SKIP LOCKED"
	}
	got := lineRows{}
	for _, text := range []string{
		"SELECT 'head', x_id FROM " + x.tables.head + " WHERE name = 'n'" + lock,
		"SELECT id, CASE WHEN until = 0 THEN 'ended' WHEN held = 1 THEN id ELSE '' END FROM " + x.tables.claim + " WHERE name = 'n'" + lock,
	} {
		rows, err := c.Query(x.Context(), text)
		if err != nil {
			x.Fatal(err)
		}
		var row, holder string
		if _, err := pgx.ForEachRow(rows, []any{&row, &holder}, func() error { got[row] = holder; return nil }); err != nil {
			x.Fatal(err)
		}
	}
	return got
}

// args are those of the claim "me", about the rows that prepare makes.
func (x *guardLocks) args(q *sqlstore.Statement, state string) []any {
	a := sqlstore.Named("n")
	a.Text[sqlstore.ID], a.Text[sqlstore.Owner] = "me", "owner"
	for p, n := range map[sqlstore.Param]int64{
		sqlstore.Try: 1, sqlstore.MaxTry: 1, sqlstore.Need: 1, sqlstore.Limit: 1, sqlstore.Queue: 1, sqlstore.TTL: 60_000_000,
		sqlstore.Token: 10, sqlstore.Held: 1, sqlstore.Count: 10, sqlstore.Keep: 1,
	} {
		a.Num[p] = n
	}
	for i, claim := range lineStates[state].claims {
		if strings.HasPrefix(claim, "me ") {
			a.Num[sqlstore.Token] = int64(20 + i)
		}
	}
	a.List = []*sqlstore.Args{a}
	return args(&sqlstore.Step{Statement: q, Args: a})
}

func (x *guardLocks) begin(c *pgx.Conn) pgx.Tx {
	x.Helper()
	tx, err := c.Begin(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	return tx
}

// run runs a statement in a transaction on conn. An error of a statement that fails on
// purpose is not returned.
func (x *guardLocks) run(tx pgx.Tx, q *sqlstore.Statement, state string) error {
	_, err := tx.Exec(x.Context(), q.Text, x.args(q, state)...)
	if isCode(err, divisionByZero) {
		return nil
	}
	return err
}

// check compares what a statement changed with the rows that it keeps from guards. It
// reports whether the statement granted.
func (x *guardLocks) check(q *sqlstore.Statement, state string) (granted bool) {
	x.Helper()
	x.prepare(state)
	before := x.rows(x.rival, false)
	tx := x.begin(x.conn)
	defer tx.Rollback(x.Context())
	if err := x.run(tx, q, state); err != nil {
		x.Errorf("%s, %s: %v", q.Name, state, err)
		return false
	}
	if tx.Conn().PgConn().TxStatus() != 'T' { // it failed on purpose
		return false
	}
	after, free := x.rows(x.conn, false), x.rows(x.rival, true)
	ended := false
	for row, holder := range before {
		now, there := after[row]
		_, unlocked := free[row]
		gave := there && now != "" && now != "ended" && now != holder
		granted = granted || gave
		// delete_claim only marks a row, and unlock and release_hold leave the head to
		// the grant that follows: they are the holder's own, and need not wait.
		took := !there || row == "head" && holder != "" && now == "" && q.Name != "unlock" && q.Name != "release_hold" && q.Name != "reap_hold"
		ended = ended || took || now == "ended" && q.Name == "evict_claim"
		if took && unlocked {
			x.Errorf("%s, %s: ends %s without a lock against guards", q.Name, state, row)
		}
	}
	_, headUnlocked := free["head"]
	x.checkTables(q, state, granted)
	if waits := x.guardWaits(tx); waits == headUnlocked {
		x.Errorf("%s, %s: pg_locks shows a guard that waits: %v; the row was skipped as locked: %v", q.Name, state, waits, !headUnlocked)
	}
	if granted && headUnlocked {
		x.Errorf("%s, %s: grants without a lock against guards", q.Name, state)
	}
	// touch_hold tells guarded transactions apart, and take_free gives a hold again to
	// the claim that has it; both skip a row that is guarded.
	if !granted && !ended && q.Name != "touch_hold" && q.Name != "take_free" {
		for row, holder := range before {
			if _, unlocked := free[row]; holder != "" && !unlocked {
				x.Errorf("%s, %s: grants and ends nothing, and locks %s against guards", q.Name, state, row)
			}
		}
	}
	return granted
}

// checkTables reads in pg_locks what the open transaction on conn holds on whole tables:
// nothing that keeps out others, and after a grant the lock of a SELECT FOR on the head's,
// because an update alone does not conflict with a guard.
func (x *guardLocks) checkTables(q *sqlstore.Statement, state string, granted bool) {
	x.Helper()
	rows, err := x.rival.Query(x.Context(), `SELECT relation::regclass::text, mode FROM pg_locks
		WHERE pid = $1 AND relation IN ($2::text::regclass, $3::text::regclass)`, x.conn.PgConn().PID(), x.tables.head, x.tables.claim)
	if err != nil {
		x.Fatal(err)
	}
	selected := false
	var table, mode string
	if _, err := pgx.ForEachRow(rows, []any{&table, &mode}, func() error {
		if mode != "AccessShareLock" && mode != "RowShareLock" && mode != "RowExclusiveLock" {
			x.Errorf("%s, %s: locks %s with %s", q.Name, state, table, mode)
		}
		selected = selected || table == x.tables.head && mode == "RowShareLock"
		return nil
	}); err != nil {
		x.Fatal(err)
	}
	if granted && !selected {
		x.Errorf("%s, %s: grants, and has not selected the head for a lock", q.Name, state)
	}
}

// guardWaits begins a guard of the head beside an open transaction, which it ends, and
// reads in pg_locks whether it waits for it. Row locks themselves are in the rows.
func (x *guardLocks) guardWaits(tx pgx.Tx) (waits bool) {
	x.Helper()
	statement := x.conn.PgConn().PID()
	done := make(chan error, 1)
	go func() {
		_, err := x.guard.Exec(x.Context(), "SELECT 1 FROM "+x.tables.head+" WHERE name = 'n' FOR KEY SHARE")
		done <- err
	}()
	for !waits {
		select {
		case err := <-done:
			if err != nil {
				x.Fatal(err)
			}
			return false
		case <-time.After(time.Millisecond):
		}
		if err := x.rival.QueryRow(x.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks w JOIN pg_locks h USING (transactionid)
			WHERE NOT w.granted AND h.granted AND w.pid = $1 AND h.pid = $2)`, x.guard.PgConn().PID(), statement).Scan(&waits); err != nil {
			x.Fatal(err)
		}
	}
	x.waited++
	if err := tx.Rollback(x.Context()); err != nil {
		x.Fatal(err)
	}
	if err := <-done; err != nil {
		x.Fatal(err)
	}
	return true
}

// checkGuarded runs a statement while some rows are guarded: it must not wait for them,
// and if the head row is guarded it must not grant.
func (x *guardLocks) checkGuarded(q *sqlstore.Statement, state, rows string) {
	x.Helper()
	x.prepare(state)
	before := x.rows(x.rival, false)
	guard := x.begin(x.rival)
	defer guard.Rollback(x.Context())
	if _, err := guard.Exec(x.Context(), "SELECT 1 FROM "+rows+" FOR KEY SHARE"); err != nil {
		x.Fatal(err)
	}
	tx := x.begin(x.conn)
	defer tx.Rollback(x.Context())
	if err := x.run(tx, q, state); err != nil {
		if !isCode(err, lockNotAvailable) || !strings.HasPrefix(q.Name, "evict_") { // these fail at once
			x.Errorf("%s, %s, %s guarded: %v", q.Name, state, rows, err)
		}
		return
	}
	if tx.Conn().PgConn().TxStatus() != 'T' || strings.HasPrefix(rows, x.tables.claim) {
		return
	}
	for row, holder := range x.rows(x.conn, false) {
		if holder != "" && holder != "ended" && holder != before[row] {
			x.Errorf("%s, %s, guarded: grants %s", q.Name, state, row)
		}
	}
}
