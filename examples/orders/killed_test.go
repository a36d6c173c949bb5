package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/once"
)

// A shift is a service that is killed with -9 and started again while clients send it
// every order several times.
type shift struct {
	t        *testing.T
	role     []string
	addr     atomic.Pointer[string]
	answered atomic.Int64
	unknown  atomic.Int64 // of those
}

const clients, times = 16, 4

// work has all orders sent while the service is killed so often, at even distances.
func (s *shift) work(orders, kills int) {
	var queue []int
	for range times {
		queue = append(queue, rand.Perm(orders)...)
	}
	next := make(chan int, len(queue))
	for _, n := range queue {
		next <- n
	}
	close(next)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := range next {
				if !s.send(ctx, fmt.Sprint("order-", n)) {
					return
				}
				s.answered.Add(1)
			}
		})
	}
	end := s.start()
	for i := range kills {
		for s.answered.Load() < int64((i+1)*len(queue)/(kills+1)) {
			time.Sleep(time.Millisecond)
		}
		end()
		end = s.start()
	}
	all.Wait()
	end()
	s.t.Logf("%d requests for %d orders were answered over %d kills, %d of them with an unknown outcome",
		s.answered.Load(), orders, kills, s.unknown.Load())
}

// start starts the service and returns how to kill it.
func (s *shift) start() (kill func()) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+strings.Join(s.role, "\n"))
	cmd.Stderr = s.t.Output()
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the service that we died
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	s.t.Cleanup(kill)
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the service: %v", err)
	}
	addr = strings.TrimSpace(addr)
	s.addr.Store(&addr)
	return kill
}

// send sends an order until it is answered, as a client does that hears nothing.
func (s *shift) send(ctx context.Context, order string) bool {
	for ctx.Err() == nil {
		addr := s.addr.Load()
		if addr == nil || !s.once(ctx, *addr, order) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		return true
	}
	return false
}

func (s *shift) once(ctx context.Context, addr, order string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/"+order, nil)
	if err != nil {
		s.t.Error(err)
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false
	case res.StatusCode == http.StatusConflict:
		s.unknown.Add(1)
	case res.StatusCode != http.StatusOK:
		s.t.Logf("%s: %s: %s", order, res.Status, body)
		return false
	case string(body) != "receipt of "+order:
		s.t.Errorf("%s is answered with %q", order, body)
	}
	return true
}

func TestEveryOrderIsBookedExactlyOnceThoughTheServiceIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "shop.db")
		booked(t, "sqlite://"+file, "sqlite3", "file:"+file+"?_pragma=busy_timeout(60000)", "INSERT INTO entries (name) VALUES (?)")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url := "postgres://postgres@" + testserver.PostgreSQL(t).Addr() + "/postgres?sslmode=disable"
		booked(t, url, "pgx", url, "INSERT INTO entries (name) VALUES ($1)")
	})
}

func booked(t *testing.T, store, driver, dsn, insert string) {
	c, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	records, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := records.(interface{ Migrate(context.Context) error }); ok {
		if err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE entries (name VARCHAR(100) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	const orders = 200
	(&shift{t: t, role: []string{store, "ledger", driver, dsn, insert}}).work(orders, 5)
	var entries, different int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT name) FROM entries").Scan(&entries, &different); err != nil {
		t.Fatal(err)
	}
	if entries != orders || different != orders {
		t.Errorf("%d entries of %d orders, for %d", entries, different, orders)
	}
	for n := range orders {
		if rec, err := once.Find(t.Context(), c, fmt.Sprint("order-", n)); err != nil || rec.State != once.Done {
			t.Errorf("order %d: %+v, %v", n, rec, err)
		}
	}
}

// Where the effect is not in the store, no order has two runs that came to their end,
// and with Hold none is begun again after a crash.
func TestNoOrderIsChargedTwiceToTheEndNorWithHoldBegunTwice(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"retry", "hold"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			charged(t, policy, 200, 5)
		})
	}
}

func charged(t *testing.T, policy string, orders, kills int) {
	store, effects := "redis://"+testserver.Redis(t).Addr(), filepath.Join(t.TempDir(), "effects")
	s := &shift{t: t, role: []string{store, policy, effects}}
	s.work(orders, kills)
	b, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(b)) {
		seen[strings.TrimSpace(line)]++
	}
	for n := range orders {
		begun, ended := seen[fmt.Sprint("begin order-", n)], seen[fmt.Sprint("end order-", n)]
		switch {
		case ended > 1:
			t.Errorf("order %d: %d runs came to their end", n, ended)
		case policy == "hold" && begun > 1:
			t.Errorf("order %d: begun %d times with Hold", n, begun)
		case policy == "retry" && begun == 0:
			t.Errorf("order %d was answered and never begun", n)
		}
	}
	if policy == "retry" && s.unknown.Load() > 0 {
		t.Errorf("%d unknown outcomes with Retry", s.unknown.Load())
	}
}
