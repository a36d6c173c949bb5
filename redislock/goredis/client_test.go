package goredis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/goredis"
)

func scripted(request []byte) bool { return bytes.Contains(bytes.ToUpper(request), []byte("EVALSHA")) }

func mutex(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

func session(t *testing.T, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls counts how often clients have run scripts by digest.
func calls(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n) // 0 if there was none
	return n
}

func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A scan only reads, so a client that repeats such commands repeats it.
func TestAClientThatRetriesRepeatsAScan(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, testserver.Redis(t).Addr())
	e := goredis.New(connect(t, p.Addr()))
	defer e.Close()
	if _, err := session(t, e, time.Minute).Enter(t.Context(), mutex("aa", "held")); err != nil {
		t.Fatal(err)
	}
	p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(request []byte) bool {
		return bytes.Contains(bytes.ToUpper(request), []byte("SCAN"))
	}))
	n := 0
	for _, err := range e.List(t.Context(), "") {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 || p.Swallowed() != 1 {
		t.Errorf("%d of one claim; %d replies were lost", n, p.Swallowed())
	}
}

func TestAClientThatRetriesDoesNotRepeatALock(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	direct := connect(t, s.Addr())
	e := goredis.New(connect(t, p.Addr()))
	defer e.Close()
	one := session(t, e, time.Minute)
	for i := range 5 {
		if _, err := one.Enter(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		if err := one.Leave(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		before := calls(t, direct)
		p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(scripted))
		st, err := one.Enter(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job"))
		if !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("Enter, the reply to which was lost: %+v, %v, not ErrUnreachable", st, err)
		}
		if n := calls(t, direct) - before; n != 1 {
			t.Fatalf("Enter was sent %d times", n)
		}
		p.Heal()
		if err := one.Leave(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job")); err != nil {
			t.Fatalf("Leave of what was entered without an answer: %v", err)
		}
	}
}

func TestACallComesBackWhenItsCtxEnds(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	e := goredis.New(connect(t, p.Addr()))
	defer e.Close()
	one := session(t, e, time.Minute)
	p.BlackHole(faultproxy.Both)
	for _, limit := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		if _, err := one.Enter(ctx, mutex("aa", "job")); !errors.Is(err, ctx.Err()) || err == nil {
			t.Errorf("Enter: %v, not ctx's error", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("Enter came back after %v", took)
		}
		cancel()
	}
	p.Reset() // otherwise Close would wait for replies
	p.Heal()
}

func TestServersThatDoNotKnowEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	e := goredis.New(ring)
	defer e.Close()
	_, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Open on a ring: %v, not ErrUnsupported", err)
	}
}

// All existing connections stop carrying data, and new ones work, as when a firewall has
// lost its state.
func TestALeaseOutlivesConnectionsThatDieSilently(t *testing.T) {
	t.Parallel()
	const crowd = 12
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	way := atomic.Pointer[string]{} // where new connections go
	first, direct := p.Addr(), s.Addr()
	way.Store(&direct)
	own := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 2 * crowd,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, *way.Load())
		}})
	t.Cleanup(func() { _ = own.Close() })
	e := goredis.New(own)
	c := pawl.New(e, pawl.WithTTL(silentTTL))
	t.Cleanup(func() { _ = e.Close() })
	t.Cleanup(func() { _ = c.Close() })
	defer p.Reset() // otherwise Close would wait for replies
	outlives(t, func() []*pawl.Lease {
		p.Heal()
		p.Reset()
		way.Store(&first)
		var idle []*redis.Conn
		for range crowd { // idle connections, as after a burst
			one := own.Conn()
			if err := one.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			idle = append(idle, one)
		}
		for _, one := range idle {
			_ = one.Close()
		}
		l, err := c.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		way.Store(&direct)
		p.BlackHole(faultproxy.Both)
		return []*pawl.Lease{l}
	})
}

// silentTTL is long enough for a busy machine to detect a dead connection and to make
// another.
const silentTTL = 5 * time.Second

// outlives fails unless the leases that take returns are renewed for two TTLs. If the
// machine stalled meanwhile, a lost lease proves nothing, and the test is repeated.
func outlives(t *testing.T, take func() []*pawl.Lease) {
	t.Helper()
	stalltest.Succeeds(t, silentTTL/10, func() error { return renewed(take()) })
}

// renewed waits until leases have been renewed for two TTLs, and gives them back.
func renewed(leases []*pawl.Lease) (failed error) {
	from := time.Now()
	for _, l := range leases {
		for failed == nil && !l.Deadline().After(from.Add(2*silentTTL)) {
			select {
			case <-l.Context().Done():
				failed = context.Cause(l.Context())
			case <-time.After(silentTTL / 50):
			}
		}
	}
	for _, l := range leases {
		_ = l.Unlock() // it may be sent on a dead connection
	}
	return failed
}
