package browser

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// A store is one that was empty when the test began, and the client of an observer.
type store struct {
	t    *testing.T
	url  string
	seen *pawl.Client
}

// prefixes counts the stores on servers that tests share.
var prefixes atomic.Int64

// eachStore runs a test on Redis, PostgreSQL and SQLite.
func eachStore(t *testing.T, test func(t *testing.T, s *store)) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"Redis": func(t *testing.T) string {
			return fmt.Sprintf("redis://%s?prefix=b%d-", recipetest.Redis(t), prefixes.Add(1))
		},
		"PostgreSQL": func(t *testing.T) string {
			return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&pool_max_conns=4&prefix=b%d-", recipetest.PostgreSQL(t), prefixes.Add(1))
		},
		"SQLite": func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newStore(t, url(t)))
		})
	}
}

// aStore returns a store for a test to which the kind of store makes no difference.
func aStore(t *testing.T) *store {
	t.Helper()
	return newStore(t, "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
}

func newStore(t *testing.T, url string) *store {
	t.Helper()
	s := &store{t: t, url: url}
	s.seen = s.client("observer@test pid 1 test")
	return s
}

// client opens a client with a note; it ends with the test.
func (s *store) client(note string, opts ...pawl.Option) *pawl.Client {
	s.t.Helper()
	return recipetest.On(s.url)(s.t, append([]pawl.Option{pawl.WithNote(note), pawl.WithTTL(5 * time.Minute)}, opts...)...)
}

// line returns the claims of a name.
func (s *store) line(name string) []driver.Entry {
	s.t.Helper()
	line, err := s.seen.Line(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return line
}

// hold acquires a lock by a client of its own.
func (s *store) hold(note, name string) *pawl.Lease {
	s.t.Helper()
	return lock(s.t, s.client(note), name)
}

func lock(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	lease, err := c.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// queue lets a client of its own wait for a lock, and returns when it is last in line;
// giveUp ends the wait.
func (s *store) queue(note, name string) (claim string, giveUp func()) {
	s.t.Helper()
	return s.queueOf(s.client(note), name)
}

// queueOf lets a client wait for a lock, and returns when its claim is in line.
func (s *store) queueOf(c *pawl.Client, name string) (claim string, giveUp func()) {
	s.t.Helper()
	before := map[string]bool{}
	for _, e := range s.line(name) {
		before[e.ID] = true
	}
	giveUp = s.wait(func(ctx context.Context) (*pawl.Lease, error) { return c.Mutex(name).Lock(ctx) })
	awaitGo(s.t, "a claim in line for "+name, func() bool {
		for _, e := range s.line(name) {
			if !before[e.ID] {
				claim = e.ID
			}
		}
		return claim != ""
	})
	return claim, giveUp
}

// wait acquires in the background. The returned function ends the wait, or the hold
// if it was granted; the end of the test does too.
func (s *store) wait(acquire func(ctx context.Context) (*pawl.Lease, error)) (giveUp func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { // giveUp waits for it
		defer close(ended)
		lease, err := acquire(ctx)
		if err == nil {
			<-ctx.Done()
			_ = lease.Unlock()
		}
	}()
	giveUp = func() { cancel(); <-ended }
	s.t.Cleanup(giveUp)
	return giveUp
}

// awaitGo polls until a condition is true.
func awaitGo(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); {
		if time.Since(begun) > patience {
			t.Fatalf("not seen within %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // poll: there is no notification
	}
}
