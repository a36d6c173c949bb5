package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// Replies are encoded differently in the two versions of the protocol.
func TestBothProtocolsOnBothClients(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	for _, protocol := range []int{2, 3} {
		for _, client := range []string{"rueidis", "go-redis"} {
			t.Run(fmt.Sprint(client, " ", protocol), func(t *testing.T) {
				t.Parallel()
				prefix := redislock.WithPrefix(fmt.Sprint(client, protocol, ":"))
				connect := func() *pawl.Client {
					if client == "go-redis" {
						c := goredisclient.NewClient(&goredisclient.Options{Addr: s.Addr(), Protocol: protocol})
						t.Cleanup(func() { c.Close() })
						return pawl.New(goredis.New(c, prefix), pawl.WithTTL(ttl))
					}
					c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{s.Addr()}, AlwaysRESP2: protocol == 2, DisableCache: true, ForceSingleClient: true})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(c.Close)
					return pawl.New(rueidis.New(c, prefix), pawl.WithTTL(ttl))
				}
				a, b := connect(), connect()
				defer a.Close()
				defer b.Close()
				exercise(t, a, b, ttl)
			})
		}
	}
}

// evals counts the scripts that a server has run.
func (c *console) evals() int {
	c.t.Helper()
	n := 0
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(c.do("INFO", "commandstats"), -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			c.t.Fatal(err)
		}
		n += calls
	}
	return n
}

// Forty clients wait. A handoff needs the release and nothing else; only the next waiter
// is notified.
func TestAHandoffCostsTheSameHoweverManyWait(t *testing.T) {
	t.Parallel()
	const clients = 40
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	l := lock(t, open(t, "redis://"+s.Addr(), pawl.WithTTL(time.Minute)).Mutex("name"))
	var (
		mu    sync.Mutex
		order []int
		wg    sync.WaitGroup
	)
	for i := range clients {
		c := open(t, "redis://"+s.Addr(), pawl.WithTTL(time.Minute))
		wg.Go(func() {
			next, err := c.Mutex("name").Lock(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := next.Unlock(); err != nil {
				t.Error(err)
			}
		})
		until(t, 5*time.Second, "in line", func() bool { return at.do("ZCARD", "pawl:\x01hname\x01w") == strconv.Itoa(i+1) })
	}
	before := at.evals()
	unlock(t, l)
	wg.Wait()
	if n := at.evals() - before; n > 3*(clients+1) {
		t.Errorf("%d scripts for %d handoffs", n, clients)
	} else {
		t.Logf("%d scripts for %d handoffs", n, clients)
	}
	for i, who := range order {
		if who != i {
			t.Fatalf("served in the order %v", order)
		}
	}
}

// A waiter in the middle of the line dies; those behind it move up.
func TestTheLineClosesUpBehindTheDead(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	living := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	dead := open(t, "redis://"+p.Addr(), pawl.WithTTL(ttl))
	last := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	l := lock(t, living.Mutex("name"))
	inLine := func(n int) {
		t.Helper()
		until(t, 3*ttl, "in line", func() bool { return at.do("ZCARD", "pawl:\x01hname\x01w") == strconv.Itoa(n) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = dead.Mutex("name").Lock(ctx) }()
	inLine(1)
	got := make(chan error, 1)
	go func() {
		next, err := last.Mutex("name").Lock(context.Background())
		if err == nil {
			err = next.Unlock()
		}
		got <- err
	}()
	inLine(2)
	p.BlackHole(faultproxy.Both)
	inLine(1) // the dead waiter's place has expired, the other waits
	outlast(ttl)
	inLine(1)
	w := startWatch()
	defer w.end()
	unlock(t, l)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if took := w.spent(); took > ttl {
		t.Errorf("the next in line held after %v", took)
	}
	mend(p)
}

// Permits of a process that died are free again, and are not given back twice.
func TestPermitsOfADeadProcessComeBackOnce(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	dead, living := open(t, "redis://"+p.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	gone, err := dead.Semaphore("name", 3).Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	one, err := living.Semaphore("name", 3).Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p.BlackHole(faultproxy.Both)
	ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
	defer cancel()
	two, err := living.Semaphore("name", 3).Acquire(ctx, 2)
	if err != nil {
		t.Fatalf("the permits of a dead process: %v", err)
	}
	mend(p)
	if err := gone.Unlock(); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("an expired permit is given back with %v", err)
	}
	if _, err := living.Semaphore("name", 3).TryAcquire(t.Context(), 1); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("a fourth permit of three: %v", err)
	}
	unlock(t, one)
	unlock(t, two)
	until(t, time.Second, "only the fence is left", func() bool { return at.do("DBSIZE") == "1" })
}

// Multi-name locks in opposite orders must not deadlock, also when they are interrupted.
func TestSeveralNamesInOppositeOrders(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	var wg sync.WaitGroup
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c"}, {"c", "a"}} {
		c := open(t, "redis://"+s.Addr())
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				l, err := c.LockAll(ctx, names)
				cancel()
				if err != nil {
					t.Errorf("%v: %v", names, err)
					return
				}
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
				short, stop := context.WithTimeout(context.Background(), 2*time.Millisecond) // interrupted half way
				if l, err := c.LockAll(short, names); err == nil {
					_ = l.Unlock()
				}
				stop()
			}
		})
	}
	wg.Wait()
	until(t, 12*time.Second, "all given back", func() bool { return at.do("EXISTS", "pawl:a", "pawl:b", "pawl:c") == "0" })
}
