// Package recipetest has the stores that the tests of the recipes run on. The
// servers are shared by all tests of a binary, which [Main] runs; every test has a
// prefix of its own there.
package recipetest

import (
	"fmt"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines" // registers the schemes
	"github.com/pawl-go/pawl/memlock"
)

// A Place is one empty store of a test. Every call opens a further client on it,
// as another process would have.
type Place func(t testing.TB, opts ...pawl.Option) *pawl.Client

// Each runs a test on every store.
func Each(t *testing.T, test func(t *testing.T, open Place)) { run(t, test, false) }

// EachWithRecords runs a test on every store that keeps records.
func EachWithRecords(t *testing.T, test func(t *testing.T, open Place)) { run(t, test, true) }

func run(t *testing.T, test func(t *testing.T, open Place), records bool) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memory())
	})
	sites(t, func(t *testing.T, s *Site) { test(t, On(s.URL)) }, records)
}

// EachSite runs a test on every store that several processes can meet in.
func EachSite(t *testing.T, test func(t *testing.T, s *Site)) { sites(t, test, false) }

// EachSiteWithRecords runs a test on those of them that keep records.
func EachSiteWithRecords(t *testing.T, test func(t *testing.T, s *Site)) { sites(t, test, true) }

func sites(t *testing.T, test func(t *testing.T, s *Site), records bool) {
	for _, k := range kinds() {
		if records && !k.records {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k.site(t))
		})
	}
}

// WithoutRecords opens a client on a store that keeps no records.
func WithoutRecords(t testing.TB) *pawl.Client {
	c := pawl.New(struct{ driver.Engine }{memlock.New()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func memory() Place {
	engine := memlock.New()
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		c := pawl.New(engine, opts...)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// On is the store at a URL.
func On(url string) Place {
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		t.Helper()
		c, err := pawl.Open(t.Context(), url, opts...)
		if err != nil {
			t.Fatal(fmt.Errorf("open a client: %w", err))
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}
