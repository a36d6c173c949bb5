package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// settings are what administrators set for all sessions of a server.
var settings = map[string]map[string]string{
	"safe updates":   {"sql_safe_updates": "1"},
	"ANSI":           {"sql_mode": "'ANSI,ONLY_FULL_GROUP_BY'"},
	"odd modes":      {"sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES,IGNORE_SPACE,NO_UNSIGNED_SUBTRACTION'"},
	"padded":         {"sql_mode": "'PAD_CHAR_TO_FULL_LENGTH'"},
	"strict":         {"sql_mode": "'TRADITIONAL,NO_ZERO_DATE'"},
	"nothing strict": {"sql_mode": "''"},
	"short results":  {"sql_select_limit": "1"},
	"no big selects": {"sql_big_selects": "0", "max_join_size": "1000"},
	"short waits":    {"innodb_lock_wait_timeout": "1"},
	"chains":         {"completion_type": "1"},
	"no autocommit":  {"autocommit": "0"},
}

// only are settings of one server alone.
var only = map[string]map[string]map[string]string{
	"mariadb": {
		"simultaneous assignment": {"sql_mode": "'SIMULTANEOUS_ASSIGNMENT'"},
		"Oracle":                  {"sql_mode": "'ORACLE'"},
		"short statements":        {"max_statement_time": "2"},
		"read committed":          {"tx_isolation": "'READ-COMMITTED'"},
		"repeatable read":         {"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "OFF"},
		"snapshot isolation":      {"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "ON"},
		"serializable":            {"tx_isolation": "'SERIALIZABLE'"},
	},
	"mysql": {
		"short statements": {"max_execution_time": "2000"},
		"read committed":   {"transaction_isolation": "'READ-COMMITTED'"},
		"repeatable read":  {"transaction_isolation": "'REPEATABLE-READ'"},
		"serializable":     {"transaction_isolation": "'SERIALIZABLE'"},
	},
}

// Locks work under what administrators set for sessions, on connections of ours and
// on the user's.
func anySetting(t *testing.T, kind string, s *testserver.Server) {
	all := maps.Clone(settings)
	maps.Copy(all, only[kind])
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Run(what, func(t *testing.T) {
			underSettings(t, s.Addr(), all[what])
		})
	}
}

func underSettings(t *testing.T, addr string, vars map[string]string) {
	admin := openDB(t, addr, "", "")
	var dsn []string
	for k, v := range vars {
		if _, err := admin.Exec("SET GLOBAL " + k + " = " + v); err != nil {
			t.Fatal(err)
		}
		defer admin.Exec("SET GLOBAL " + k + " = DEFAULT")
		dsn = append(dsn, k+"="+v)
	}
	// The connections are made while the settings stand.
	foreign := func(params ...string) func() *Engine {
		db := openDB(t, addr, "pawl", strings.Join(append(dsn, params...), "&"))
		return func() *Engine {
			e, err := New(db)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	ways := map[string]func() *Engine{"url": func() *Engine { return openStore(t, addr+"/pawl", nil) }}
	if vars["autocommit"] == "" { // the user's are refused
		ways["one by one"], ways["at once"] = foreign(), foreign("multiStatements=true")
	}
	var wg sync.WaitGroup
	for how, open := range ways {
		wg.Go(func() {
			if err := exercise(t, open, how); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		})
	}
	wg.Wait()
}

// exercise plays everything that an engine does, once.
func exercise(t *testing.T, open func() *Engine, how string) error {
	const ttl = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	e := open()
	a, b := openClient(t, e, pawl.WithTTL(ttl)), openClient(t, open(), pawl.WithTTL(ttl))
	name := func(of string) string { return t.Name() + how + of }
	var held []*pawl.Lease
	for i := range 2 {
		l, err := a.Mutex(name(fmt.Sprint(i))).Lock(ctx)
		if err != nil {
			return err
		}
		held = append(held, l)
	}
	for range 2 {
		l, err := a.Semaphore(name("permits"), 3).Acquire(ctx, 1)
		if err != nil {
			return err
		}
		held = append(held, l)
	}
	next := make(chan error, 1)
	go func() { // awaited below
		l, err := b.Mutex(name("0")).Lock(ctx)
		if err == nil {
			err = l.Unlock()
		}
		next <- err
	}()
	await(t, "a statement waits", func() bool {
		line, err := e.Line(ctx, name("0"))
		return err == nil && len(line) == 2 && line[0].Held && !line[1].Held
	})
	if err := beaten(ctx, e, name("")); err != nil {
		return err
	}
	for _, l := range held {
		if err := l.Unlock(); err != nil {
			return err
		}
	}
	if err := <-next; err != nil {
		return fmt.Errorf("the next: %w", err)
	}
	all, err := a.LockAll(ctx, []string{name("x"), name("y")})
	if err != nil {
		return err
	}
	if l, err := b.Mutex(name("x")).TryLock(ctx); !errors.Is(err, pawl.ErrHeld) {
		return fmt.Errorf("both hold: %v, %w", l, err)
	}
	if err := all.Unlock(); err != nil {
		return err
	}
	version, err := e.Store(ctx, name("r"), []byte("one"), 0, time.Hour)
	if err == nil {
		_, err = e.Store(ctx, name("r"), []byte("two"), version, time.Hour)
	}
	if err != nil {
		return err
	}
	if value, _, err := e.Load(ctx, name("r")); err != nil || string(value) != "two" {
		return fmt.Errorf("a record %q, %w", value, err)
	}
	l, err := a.Mutex(name("broken")).Lock(ctx)
	if err != nil {
		return err
	}
	for x, err := range e.List(ctx, name("broken")) {
		if err != nil {
			return err
		}
		if err := e.Evict(ctx, x); err != nil {
			return err
		}
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
		return fmt.Errorf("one that was evicted: %w", err)
	}
	if left, err := e.Line(ctx, name("broken")); err != nil || len(left) != 0 {
		return fmt.Errorf("%d are left, %w", len(left), err)
	}
	return swept(ctx, e, name("idle"))
}

// swept has a name that was idle for long and a record that has ended swept.
func swept(ctx context.Context, e *Engine, name string) error {
	t, left := e.store.tables, 2
	run := func(fn func(c *sql.Conn) error) error { return e.store.from.with(ctx, &sqlstore.Batch{}, fn) }
	err := run(func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %s (name, fence, x_id, x_try, x_token, x_session, x_live, x_note,
			x_need, x_limit, x_queue, x_since, x_until, used, waiting, departed)
			VALUES (x'%x', %d, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0)`, t.head, name, time.Now().UnixMicro()))
		_, err2 := c.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (name, version, value, until) VALUES (x'%x', 1, '', 1)", t.record, name))
		return errors.Join(err, err2)
	})
	for left > 0 && err == nil { // a sweep that is in another's way leaves it for the next
		if err = e.Sweep(ctx); err == nil {
			err = run(func(c *sql.Conn) error {
				return c.QueryRowContext(ctx, fmt.Sprintf("SELECT (SELECT count(*) FROM %s WHERE name = x'%[3]x') + (SELECT count(*) FROM %[2]s WHERE name = x'%[3]x')",
					t.head, t.record, name)).Scan(&left)
			})
		}
	}
	if err != nil {
		return fmt.Errorf("of what is to be swept %d are left: %w", left, err)
	}
	return nil
}

// beaten has several claims of one session prolonged, held, shared and waiting ones.
func beaten(ctx context.Context, e driver.Engine, name string) error {
	var sessions [2]driver.Session
	for i := range sessions {
		s, err := e.Open(ctx, driver.SessionOptions{ID: rand.Text(), TTL: time.Minute})
		if err != nil {
			return err
		}
		sessions[i] = s
		defer s.Close(ctx)
	}
	var live [2][]driver.Claim
	for i, s := range sessions {
		for n, limit := range []int{1, 1, 3, 3} { // several are prolonged by another statement than one
			c := driver.Claim{ID: strings.ToLower(rand.Text() + rand.Text())[:32], Try: 1, Name: fmt.Sprint(name, "beaten", n), Need: 1, Limit: limit, Queue: true}
			if _, err := s.Enter(ctx, c); err != nil {
				return err
			}
			live[i] = append(live[i], c)
		}
	}
	for i, s := range sessions {
		for _, some := range [][]driver.Claim{live[i], live[i][:1], live[i][3:]} {
			out := make([]driver.Standing, len(some))
			if err := s.Beat(ctx, some, out); err != nil {
				return err
			}
			for n, st := range out {
				if st.Valid == 0 || st.Held != (i == 0 || some[n].Limit > 1) {
					return fmt.Errorf("a beat says %+v", st)
				}
			}
		}
	}
	return nil
}
