package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
)

func TestLaws(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Engine { return openFile(t, filepath.Join(t.TempDir(), "pawl.db")) },
		Peer: func(t *testing.T, e driver.Engine) driver.Engine { return openFile(t, e.(*Engine).path()) },
		// A client that dies without its process is noticed by its silence.
		Crash:  func(driver.Session) {},
		MinTTL: 500 * time.Millisecond,
		Clean:  func(t *testing.T, e driver.Engine) error { return e.(*Engine).clean(t) },
	})
}

func (e *Engine) path() string { return strings.TrimSuffix(e.liveness.dir, ".live") }

// clean reports what is in the file beside free names.
func (e *Engine) clean(t *testing.T) error {
	if got := e.text(t, "PRAGMA integrity_check"); got != "ok" {
		return fmt.Errorf("integrity_check: %s", got)
	}
	// On a machine that stood still claims may have expired on a name to which
	// nobody came again: that the next one finds nothing is what matters.
	for expired := fmt.Sprintf("SELECT name FROM pawl_claim WHERE until <= %d", e.store.writer.clock.now()); ; {
		name := e.text(t, expired)
		if name == "" {
			break
		}
		if err := e.Evict(context.Background(), driver.Entry{Claim: driver.Claim{ID: "nobody", Name: name}}); !errors.Is(err, driver.ErrGone) {
			return fmt.Errorf("advance %q: %w", name, err)
		}
	}
	if got := e.text(t, fmt.Sprintf(`SELECT (SELECT count(*) FROM pawl_claim) || ' claims, '
		|| (SELECT count(*) FROM pawl_head WHERE x_until > %d OR used <> 0 OR waiting <> 0) || ' names in use'`, e.store.writer.clock.now())); got != "0 claims, 0 names in use" {
		return errors.New(got)
	}
	return nil
}

// text runs a query of one value on the connection that reads.
func (e *Engine) text(t testing.TB, query string) (got string) {
	t.Helper()
	c, err := e.store.acquireReader(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	s, _, err := c.db.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Step() {
		got = s.ColumnText(0)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// openFile opens the file for the length of a test.
func openFile(t testing.TB, path string, opts ...Option) *Engine {
	t.Helper()
	e, err := Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func session(t *testing.T, e *Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: fmt.Sprintf("%032x", time.Now().UnixNano()), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func enter(t *testing.T, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return st
}

// awaitHeld waits for a claim's turn and returns how long that took.
func awaitHeld(t *testing.T, s driver.Session, c driver.Claim) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	from := time.Now()
	for {
		st, err := s.Await(ctx, c, driver.Standing{})
		if err != nil || st.Gone {
			t.Fatalf("Await: %+v, %v", st, err)
		}
		if st.Held {
			return time.Since(from)
		}
	}
}

func mutex(id string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: "job", Need: 1, Limit: 1, Queue: true}
}
