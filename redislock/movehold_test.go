package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

// A move may take longer than a lease, before and after the keys of the lock are moved.
func TestHoldsOutliveAMoveThatTakesLongerThanALease(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"rueidis", "go-redis"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			m := newMoving(t, library)
			stalltest.Succeeds(t, moveTTL/4, func() error { return m.holdsOutliveAMove(t) })
		})
	}
}

// holdsOutliveAMove moves the slot while its names are held; none may be lost.
func (m *moving) holdsOutliveAMove(t *testing.T) (failed error) {
	c := m.clients[0]
	held := map[string]*pawl.Lease{}
	for name, lock := range map[string]func(context.Context) (*pawl.Lease, error){
		"mutex": c.Mutex("mutex").Lock, "given back": c.Mutex("given back").Lock, "reader": c.RWMutex("reader").RLock,
		"permit": func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore("permit", 3).Acquire(ctx, 2) },
	} {
		l, err := lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held[name] = l
	}
	to := m.s.Nodes[0]
	if m.s.Owner(m.slot) == to {
		to = m.s.Nodes[1]
	}
	step := m.s.BeginMove(m.slot, to)
	for _, phase := range []string{"before", "behind"} {
		outlast(moveTTL)
		for name, l := range held {
			if err := l.Err(); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %s its keys were moved: %w", name, phase, err))
			}
		}
		if phase == "before" {
			step.Keys()
		}
	}
	giveBack := func(name string) {
		if err := held[name].Unlock(); err != nil {
			failed = errors.Join(failed, err)
		}
		delete(held, name)
	}
	giveBack("given back")
	step.Finish()
	for name := range held {
		giveBack(name)
	}
	return failed
}

// While a slot is moved, scripts run that read one claim only: a beat must not revive a
// claim that has expired, and a repeated Leave must not end the next hold.
func TestNoClaimIsRevivedOrEndedByMistakeWhileASlotIsMoved(t *testing.T) {
	t.Parallel()
	s := testserver.RedisCluster(t)
	own := goredisclient.NewClusterClient(&goredisclient.ClusterOptions{Addrs: s.Addrs()})
	t.Cleanup(func() { _ = own.Close() })
	e := goredis.New(own, redislock.WithPrefix(movePrefix))
	t.Cleanup(func() { _ = e.Close() })
	session := func(id string, ttl time.Duration) driver.Session {
		one, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	enter := func(one driver.Session, c driver.Claim) {
		t.Helper()
		if st, err := one.Enter(t.Context(), c); err != nil || !st.Held {
			t.Fatal(st, err)
		}
	}
	const brief = 250 * time.Millisecond
	lives, dies := session("lives", time.Minute), session("dies", brief)
	before, next := exclusive(1, "mutex"), exclusive(2, "mutex")
	enter(lives, before)
	if err := lives.Leave(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	enter(lives, next)
	stays, dead := exclusive(3, "rw"), exclusive(4, "rw")
	stays.Limit, dead.Limit = driver.All, driver.All
	enter(lives, stays)
	enter(dies, dead)
	slot := s.Slot(movePrefix + "x")
	to := s.Nodes[0]
	if s.Owner(slot) == to {
		to = s.Nodes[1]
	}
	step := s.BeginMove(slot, to)
	time.Sleep(brief * 6 / 5) // it expires
	out := make([]driver.Standing, 2)
	if err := dies.Beat(t.Context(), []driver.Claim{dead}, out[:1]); out[0].Held {
		t.Errorf("a beat of a reader whose life was over: %+v, %v", out[0], err)
	}
	if err := lives.Leave(t.Context(), before); err == nil {
		t.Error("a second Leave says that it gave something back")
	}
	for _, moved := range []bool{false, true} {
		if moved {
			step.Finish()
		}
		if err := lives.Beat(t.Context(), []driver.Claim{next, stays}, out); err != nil || !out[0].Held || !out[1].Held {
			t.Errorf("moved %t: the next holder and the other reader have %+v, %v", moved, out, err)
		}
	}
	if err := dies.Beat(t.Context(), []driver.Claim{dead}, out[:1]); err != nil || !out[0].Gone {
		t.Errorf("behind the move the dead reader has %+v, %v", out[0], err)
	}
}
