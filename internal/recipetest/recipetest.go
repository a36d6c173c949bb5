// Package recipetest has the stores that the tests of the recipes run on.
package recipetest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/memlock"
	_ "github.com/pawl-go/pawl/redislock/rueidis" // registers redis:
	_ "github.com/pawl-go/pawl/redlock"           // registers redlock:
	_ "github.com/pawl-go/pawl/sqllock/sqlite"    // registers sqlite:
)

// A Place is one empty store of a test. Every call opens a further client on it,
// as another process would have.
type Place func(t testing.TB, opts ...pawl.Option) *pawl.Client

// A Store is a kind of store. One more engine is one more row of all.
type Store struct {
	Name    string
	Records bool // it keeps them
	Found   func(t testing.TB) Place
}

var all = []Store{
	{"memory", true, memory},
	{"SQLite", true, byURL(SQLite)},
	{"Redis", true, byURL(Redis)},
	{"Redlock", false, byURL(redlock)},
}

// Each runs a test on every store.
func Each(t *testing.T, test func(t *testing.T, open Place)) { run(t, test, false) }

// EachWithRecords runs a test on every store that keeps records.
func EachWithRecords(t *testing.T, test func(t *testing.T, open Place)) { run(t, test, true) }

func run(t *testing.T, test func(t *testing.T, open Place), records bool) {
	for _, s := range all {
		if records && !s.Records {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			test(t, s.Found(t))
		})
	}
}

// WithoutRecords opens a client on a store that keeps no records.
func WithoutRecords(t testing.TB) *pawl.Client {
	return pawl.New(struct{ driver.Engine }{memlock.New()})
}

// SQLite returns the URL of an empty file.
func SQLite(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") }

// Redis returns the URL of a server of the test's own.
func Redis(t testing.TB) string { return "redis://" + testserver.Redis(t).Addr() }

func memory(testing.TB) Place {
	engine := memlock.New()
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		c := pawl.New(engine, opts...)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

func byURL(make func(testing.TB) string) func(testing.TB) Place {
	return func(t testing.TB) Place { return On(make(t)) }
}

// On is the store at a URL.
func On(url string) Place {
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		t.Helper()
		c, err := pawl.Open(t.Context(), url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// redlock starts three servers and waits until they vote, which new ones do only
// when the longest lease that they may have forgotten is over.
func redlock(t testing.TB) string {
	var hosts []string
	for range 3 {
		hosts = append(hosts, testserver.Redis(t).Addr())
	}
	url := "redlock://" + strings.Join(hosts, ",") + "?max-ttl=2s&ttl=2s"
	for end := time.Now().Add(30 * time.Second); ; {
		c := On(url)(t)
		lease, err := c.Mutex("ripe").Lock(t.Context())
		if err == nil {
			err = lease.Unlock()
		}
		_ = c.Close()
		if err == nil {
			return url
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
