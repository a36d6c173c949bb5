package postgres

import (
	"context"
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
		"statement_timeout=1s", "lock_timeout=10ms", "idle_in_transaction_session_timeout=50ms", "idle_session_timeout=700ms",
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
	const ttl = 1500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, b, e := openClient(t, store, pawl.WithTTL(ttl)), openClient(t, store, pawl.WithTTL(ttl)), openStore(t, store)
	name := func(of string) string { return t.Name() + of }
	var held []*pawl.Lease
	for i := range 3 { // several are prolonged by another statement than one
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
	time.Sleep(2 * ttl) // for beats, of those who hold and of one who waits
	for _, l := range held {
		if err := l.Unlock(); err != nil {
			return err
		}
	}
	if err := <-next; err != nil {
		return fmt.Errorf("the next: %w", err)
	}
	all, err := a.LockAll(ctx, name("x"), name("y"))
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
