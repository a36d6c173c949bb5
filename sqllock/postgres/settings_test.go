package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Locks work under what administrators set for sessions.
func TestLocksWorkUnderAnySettingOfTheSessions(t *testing.T) {
	t.Parallel()
	serverPool(t)
	for _, set := range []string{
		"statement_timeout=1s", "lock_timeout=10ms", "idle_in_transaction_session_timeout=50ms",
		"idle_session_timeout=2s", // the pool asks a connection that was idle for a second whether it still serves
		"default_transaction_isolation=serializable", `default_transaction_isolation=repeatable\ read`, "default_transaction_deferrable=on",
		"bytea_output=escape", "standard_conforming_strings=off", "transform_null_equals=on", "synchronous_commit=off", "quote_all_identifiers=on",
		"enable_indexscan=off", "plan_cache_mode=force_generic_plan", "row_security=off", "deadlock_timeout=10ms",
	} {
		for _, mode := range []string{"cache_statement", "exec"} {
			t.Run(set+" "+mode, func(t *testing.T) {
				t.Parallel()
				store := urlOf(shared.server.Addr()) + "&default_query_exec_mode=" + mode + "&options=" + url.PathEscape("-c "+set)
				if err := exercise(t, store); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// exercise plays everything that an engine does, once.
func exercise(t *testing.T, store string) error {
	const ttl = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, b, e := openClient(t, store, pawl.WithTTL(ttl)), openClient(t, store, pawl.WithTTL(ttl)), openStore(t, store)
	name := func(of string) string { return t.Name() + of }
	var held []*pawl.Lease
	for i := range 2 {
		l, err := a.Mutex(name(fmt.Sprint(i)), pawl.WithNote("a\\b\x00'")).Lock(ctx)
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
	awaitLine(t, b, name("0"), 2)
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
		_, err = e.Store(ctx, name("r"), []byte("t\\w\x00o"), version, time.Hour)
	}
	if err != nil {
		return err
	}
	if value, _, err := e.Load(ctx, name("r")); err != nil || string(value) != "t\\w\x00o" {
		return fmt.Errorf("a record %q, %w", value, err)
	}
	l, err := a.Mutex(name("broken")).Lock(ctx)
	if err != nil {
		return err
	}
	line, err := e.Line(ctx, name("broken"))
	if err != nil || len(line) != 1 {
		return fmt.Errorf("%d in line, %w", len(line), err)
	}
	if err := e.Evict(ctx, line[0]); err != nil {
		return err
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
		return fmt.Errorf("one that was evicted: %w", err)
	}
	return e.Sweep(ctx)
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

// A server whose sessions may not write is told from one that is a replica.
func TestSessionsThatOnlyReadAreNotCalledAReplica(t *testing.T) {
	t.Parallel()
	serverPool(t)
	store := urlOf(shared.server.Addr()) + "&options=" + url.PathEscape("-c default_transaction_read_only=on")
	e := openStore(t, store)
	_, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "default_transaction_read_only") || strings.Contains(err.Error(), "replica") {
		t.Errorf("%v", err)
	}
}

// Migrate makes tables, not the schema that they are to be in, and says so.
func TestMigrateIntoAMissingSchemaSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	serverPool(t)
	for params, says := range map[string]string{
		"&table_prefix=nowhere.pawl_": "CREATE SCHEMA nowhere first",
		"&search_path=nowhere":        "search_path",
	} {
		err := openStore(t, urlOf(shared.server.Addr())+params).Migrate(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "pawl migrate") {
			t.Errorf("%s: %v", params, err)
		}
	}
}
