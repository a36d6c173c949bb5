// Package recipetest has the stores that the tests of the recipes run on. The
// tests of a binary, which [Main] runs, share the servers; every test has a
// prefix of its own there.
package recipetest

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines" // registers the schemes
	"github.com/pawl-go/pawl/memlock"
)

// An Opener opens clients on one store that was empty when the test began. Every call
// opens a further one, as another process would.
type Opener func(t testing.TB, opts ...pawl.Option) *pawl.Client

// Each runs a test on every store.
func Each(t *testing.T, test func(t *testing.T, open Opener)) { run(t, test, false) }

// EachWithRecords runs a test on every store that keeps records.
func EachWithRecords(t *testing.T, test func(t *testing.T, open Opener)) { run(t, test, true) }

func run(t *testing.T, test func(t *testing.T, open Opener), records bool) {
	OnMemory(t, test)
	runShared(t, func(t *testing.T, s *Store) { test(t, On(s.URL)) }, records)
}

// OnMemory runs a test on the memory engine.
func OnMemory(t *testing.T, test func(t *testing.T, open Opener)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memory())
	})
}

// EachShared runs a test on every store that several processes can share.
func EachShared(t *testing.T, test func(t *testing.T, s *Store)) { runShared(t, test, false) }

// EachSharedWithRecords runs a test on every such store that keeps records.
func EachSharedWithRecords(t *testing.T, test func(t *testing.T, s *Store)) { runShared(t, test, true) }

func runShared(t *testing.T, test func(t *testing.T, s *Store), records bool) {
	for _, k := range kinds() {
		if records && !k.records {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k.store(t))
		})
	}
}

// WithoutRecords opens a client on a store that keeps no records.
func WithoutRecords(t testing.TB) *pawl.Client {
	c := pawl.New(struct{ driver.Engine }{memlock.New()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func memory() Opener {
	engine := memlock.New()
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		c := pawl.New(engine, opts...)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}
