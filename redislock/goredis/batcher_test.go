package goredis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

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

// patient opens a session on a client with a long read timeout.
func patient(t *testing.T, p *faultproxy.Proxy) driver.Session {
	t.Helper()
	one, _ := patientOn(t, p)
	return one
}

// patientOn is patient, and returns the client of the session as well.
func patientOn(t *testing.T, p *faultproxy.Proxy) (driver.Session, *redis.Client) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), ReadTimeout: time.Minute, PoolSize: 20})
	e := goredis.New(c)
	t.Cleanup(func() {
		p.Heal()
		p.Reset() // otherwise Close would wait for replies
		_ = e.Close()
		_ = c.Close()
	})
	one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return one, c
}

// enterAll enters n names concurrently and returns the errors.
func enterAll(ctx context.Context, one driver.Session, n int) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = one.Enter(ctx, mutex(fmt.Sprintf("%x", i+1), fmt.Sprint("name", i)))
		})
	}
	all.Wait()
	return errs
}

func TestCallsDoNotWaitForThoseThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	one := patient(t, p)
	const silent, n = 2, 50
	p.SwallowReplies(silent, faultproxy.Matching(scripted))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	unanswered := 0
	for i, err := range enterAll(ctx, one, n) {
		if errors.Is(err, driver.ErrUnreachable) {
			unanswered++ // by itself, or in a batch
		} else if err != nil {
			t.Errorf("name %d: %v", i, err)
		}
	}
	if unanswered == 0 || unanswered == n {
		t.Errorf("%d of %d calls were not answered, of which %d replies were lost", unanswered, n, silent)
	}
	if _, err := one.Enter(t.Context(), mutex("ffff", "another")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestEveryCallComesBackWhenItsCtxEnds(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	one := patient(t, p)
	p.BlackHole(faultproxy.Both)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	for i, err := range enterAll(ctx, one, 50) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("name %d: %v, not ctx's error", i, err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("they came back after %v", took)
	}
}

// A crowd of calls on a distant server must leave connections to renewals, and to the
// program: go-redis lets the next one wait until it fails.
func TestACrowdOfCallsLeavesConnections(t *testing.T) {
	t.Parallel()
	const pool, crowd = 20, 4000
	s := testserver.Redis(t)
	stalltest.Succeeds(t, 100*time.Millisecond, func() error { // a client that stands still takes the server for silent
		p := faultproxy.New(t, s.Addr())
		one, c := patientOn(t, p)
		p.Delay(faultproxy.ToClient, 100*time.Millisecond)
		entered := make(chan error, 1)
		go func() { entered <- errors.Join(enterAll(t.Context(), one, crowd)...) }() // awaited below
		// Those that are open may be more: while the client makes one, another may be returned.
		look, most := time.NewTicker(time.Millisecond), 0
		defer look.Stop()
		for {
			select {
			case err := <-entered:
				if err != nil {
					t.Fatal(err)
				}
				if most > pool*9/10 {
					return fmt.Errorf("%d of %d connections were in use at once", most, pool)
				}
				t.Logf("%d of %d connections were in use at once", most, pool)
				return nil
			case <-look.C:
				now := c.PoolStats()
				most = max(most, int(now.TotalConns)-int(now.IdleConns))
			}
		}
	})
}
