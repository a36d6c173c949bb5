package observe_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A command is the program pawl, built once for all tests.
type command struct {
	once sync.Once
	dir  string
	err  error
}

var pawlCommand command

// path builds the program on first use, and returns where it is.
func (c *command) path(t *testing.T) string {
	t.Helper()
	c.once.Do(func() {
		if c.dir, c.err = os.MkdirTemp("", "pawl-command-"); c.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-C", "../..", "-o", c.dir, "./cmd/pawl").CombinedOutput(); err != nil {
			c.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if c.err != nil {
		t.Fatal(c.err)
	}
	return filepath.Join(c.dir, "pawl")
}

// remove removes it when the tests have ended.
func (c *command) remove() {
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// startServe starts pawl serve on a store.
func startServe(t *testing.T, store string, args ...string) *testserver.Server {
	t.Helper()
	binary := pawlCommand.path(t)
	return testserver.Start(t, testserver.Spec{
		Name:   "pawl-serve",
		Binary: testserver.File{binary},
		Args: func(s *testserver.Server) []string {
			return append([]string{"serve", "-s", store, "--listen", s.Addr()}, args...)
		},
		Ready: func(ctx context.Context, s *testserver.Server) error {
			_, err := get(ctx, "http://"+s.Addr()+"/healthz")
			return err
		},
	})
}

// Prometheus scrapes pawl serve: it sees the claims of other programs, and that the store is gone.
func TestPrometheusScrapesPawlServe(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	serve := startServe(t, "redis://"+redis.Addr(), "--class", "orders/*=orders")
	p := startPrometheus(t, "http://"+serve.Addr())
	c, err := pawl.Open(t.Context(), "redis://"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mutex("orders/42").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mutex("invoices/7").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with cancel
		defer close(ended)
		_, _ = c.Mutex("orders/42", pawl.WithFair()).Lock(ctx) // fair: its claim is in the store
	}()
	t.Cleanup(func() { cancel(); <-ended; _ = c.Close() })

	becomes := func(expr string) {
		t.Helper()
		await(t, expr, func() bool {
			found, err := p.query(t.Context(), expr)
			if err != nil {
				t.Fatal(err)
			}
			return len(found) == 1
		})
	}
	becomes(`pawl_store_reachable == 1`)
	becomes(`pawl_locks_held{class="orders"} == 1`)
	becomes(`pawl_locks_held{class=""} == 1`)
	becomes(`pawl_locks_waiting{class="orders"} == 1`)
	becomes(`pawl_oldest_wait_seconds{class="orders"} > 1`)
	page, err := get(t.Context(), "http://"+serve.Addr()+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, "pawl serve", page)

	redis.Kill()
	becomes(`pawl_store_reachable == 0`)
}
