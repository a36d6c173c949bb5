package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	rueidisclient "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// pttl returns the remaining life of a key.
func (c *console) pttl(key string) time.Duration {
	c.t.Helper()
	ms, err := strconv.ParseInt(c.do("PTTL", key), 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// Only durations are sent, so the clocks of client and server may differ.
func TestClocksThatDifferByAnHourDoNotMatter(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			const ttl = steady
			clock := testserver.NewClock(t)
			clock.Step(step)
			s := testserver.RedisOn(t, clock)
			at := newConsole(t, s.Addr())
			c, rival := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
			l := lock(t, c.Mutex("name"))
			if left := at.pttl("pawl:name"); left <= 0 || left > ttl {
				t.Errorf("the key lives for %v", left)
			}
			if _, err := rival.Mutex("name").TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("TryLock beside a holder: %v", err)
			}
			r, err := rival.RWMutex("shared").RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			outlast(ttl)
			if err := l.Err(); err != nil {
				t.Errorf("not renewed: %v", err)
			}
			unlock(t, l)
			if err := r.Err(); err != nil {
				t.Errorf("a reader is not renewed: %v", err)
			}
			unlock(t, r)
		})
	}
}

// The server's clock is stepped while a lock is held. A step forward ends the hold early,
// and the holder learns it; a step back must not keep the name held for an hour. Tokens
// grow.
func TestTheServersClockIsSteppedDuringAHold(t *testing.T) {
	t.Parallel()
	const ttl = steady
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			clock := testserver.NewClock(t)
			s := testserver.RedisOn(t, clock)
			dead := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl), pawl.WithoutRenewal())
			held := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
			left, kept := lock(t, dead.Mutex("left")), lock(t, held.Mutex("kept"))
			reader, err := dead.RWMutex("read").RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			clock.Step(step)
			rival := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
			ctx, cancel := context.WithTimeout(t.Context(), 4*ttl)
			defer cancel()
			next, err := rival.Mutex("left").Lock(ctx)
			if err != nil {
				t.Fatalf("a name that is not renewed is not free within 4 TTL: %v", err)
			}
			if next.Fence() <= left.Fence() {
				t.Errorf("token %d after %d", next.Fence(), left.Fence())
			}
			unlock(t, next)
			w, err := rival.RWMutex("read").Lock(ctx)
			if err != nil {
				t.Fatalf("a name that a dead reader shares is not free within 4 TTL: %v", err)
			}
			if w.Fence() <= reader.Fence() {
				t.Errorf("token %d after %d", w.Fence(), reader.Fence())
			}
			unlock(t, w)
			if step > 0 {
				lost(t, kept, 2*ttl)
			} else if err := kept.Err(); err != nil {
				t.Errorf("a clock set back ended a hold that is renewed: %v", err)
			}
		})
	}
}

func TestEveryHoldHasTheTTLItAskedFor(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr())
	for _, ttl := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		name := ttl.String()
		asked := time.Now()
		expect := func(how, key string, l *pawl.Lease, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			left := at.pttl(key)
			if least := ttl - time.Since(asked) - time.Millisecond; left > ttl || left < least { // the server rounds to milliseconds
				t.Errorf("%s for %v: the key lives for %v, at least %v", how, ttl, left, least)
			}
			if left := time.Until(l.Deadline()); left > ttl {
				t.Errorf("%s for %v: the deadline is in %v", how, ttl, left)
			}
			unlock(t, l)
			asked = time.Now()
		}
		m, rw, sem := c.Mutex(name, pawl.WithTTL(ttl)), c.RWMutex(name, pawl.WithTTL(ttl)), c.Semaphore(name, 3, pawl.WithTTL(ttl))
		l, err := m.Lock(t.Context())
		expect("Lock", "pawl:"+name, l, err)
		l, err = m.TryLock(t.Context())
		expect("TryLock", "pawl:"+name, l, err)
		l, err = rw.RLock(t.Context())
		expect("RLock", "pawl:"+name, l, err)
		l, err = rw.Lock(t.Context())
		expect("RWMutex.Lock", "pawl:"+name, l, err)
		l, err = sem.Acquire(t.Context(), 2)
		expect("Acquire", "pawl:"+name, l, err)
	}
	a, b := lock(t, c.Mutex("a", pawl.WithTTL(steady))), lock(t, c.Mutex("b", pawl.WithTTL(time.Minute)))
	outlast(steady)
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("two TTLs beside each other: %v, %v", a.Err(), b.Err())
	}
	if left := at.pttl("pawl:a"); left > steady {
		t.Errorf("the short one lives for %v", left)
	}
	unlock(t, a)
	unlock(t, b)
}

func TestNoTTLIsGrantedWithoutAKey(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr())
	for _, ttl := range []time.Duration{0, -1, -time.Hour, math.MaxInt64, math.MinInt64} {
		if l, err := c.Mutex("name", pawl.WithTTL(ttl)).TryLock(t.Context()); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("TTL %v: %v, %v", ttl, l, err)
		}
	}
	for _, ttl := range []time.Duration{1, time.Microsecond, 1500 * time.Microsecond, math.MaxInt32 * time.Millisecond * 2} {
		l, err := c.Mutex("name", pawl.WithTTL(ttl)).TryLock(t.Context())
		if err != nil {
			continue // expired or refused: both are reported
		}
		if left := at.pttl("pawl:name"); left <= 0 && l.Err() == nil {
			t.Errorf("TTL %v: held, and the key's is %v", ttl, left)
		}
		_ = l.Unlock()
	}
}

// After the clock was set back, the fence is ahead of it. Every script that makes tokens
// counts on from the fence.
func TestTokensAndVersionsGrowWhileTheFenceIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := rueidis.New(c)
	t.Cleanup(func() { _ = e.Close() })
	one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	newConsole(t, s.Addr()).do("SET", "pawl:\x01f", strconv.FormatUint(last, 10))
	grows := func(what string, number uint64, err error) {
		t.Helper()
		if err != nil || number <= last {
			t.Fatalf("%s has %d after %d, %v", what, number, last, err)
		}
		last = number
	}
	leave := func(c driver.Claim) {
		t.Helper()
		if err := one.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var version uint64
	for i := range 3 {
		hold, waits, reads := exclusive(3*i+1, "mutex"), exclusive(3*i+2, "mutex"), exclusive(3*i+3, "rw")
		reads.Limit = driver.All
		st, err := one.Enter(t.Context(), hold)
		grows("a holder", st.Token, err)
		st, err = one.Enter(t.Context(), waits)
		leave(hold)
		for err == nil && !st.Held {
			st, err = one.Await(t.Context(), waits, st)
		}
		grows("a waiter", st.Token, err)
		leave(waits)
		st, err = one.Enter(t.Context(), reads)
		grows("a reader", st.Token, err)
		leave(reads)
		version, err = e.(driver.Records).Store(t.Context(), "key", []byte("x"), version, 0)
		grows("a record", version, err)
	}
	for range 10 {
		for _, token := range manyTokens(t, one) {
			grows("one of many", token, nil)
		}
	}
}

// manyTokens enters and leaves many names at once, so that their calls are merged, and
// returns the tokens sorted.
func manyTokens(t *testing.T, one driver.Session) []uint64 {
	t.Helper()
	tokens := make([]uint64, 32)
	var work sync.WaitGroup
	for i := range tokens {
		work.Go(func() {
			st, err := one.Enter(t.Context(), exclusive(100+i, fmt.Sprint("name", i)))
			if tokens[i] = st.Token; err != nil || !st.Held {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
	work.Wait()
	for i := range tokens {
		if err := one.Leave(t.Context(), exclusive(100+i, fmt.Sprint("name", i))); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(tokens)
	return tokens
}

// The clock was set back by an hour while a client held the name: by that clock the hold
// lasts an hour longer. The next call on the name shortens it to its TTL.
func TestAHoldThatTheClockHasMadeTooLongIsShortenedToItsTTL(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, one driver.Session, at *console) {
		hold, reads := exclusive(1, "mutex"), exclusive(2, "rw")
		reads.Limit = driver.All
		for i, c := range []driver.Claim{hold, reads} {
			if st, err := one.Enter(t.Context(), c); err != nil || !st.Held {
				t.Fatal(st, err)
			}
			later := time.Now().Add(time.Hour).UnixMilli()
			for _, key := range []string{"pawl:" + c.Name, "pawl:\x01h" + c.Name, "pawl:\x01h" + c.Name + "\x01l"} {
				at.do("PEXPIREAT", key, strconv.FormatInt(later, 10))
			}
			if c == reads {
				at.do("ZADD", "pawl:\x01hrw\x01l", "XX", strconv.FormatInt(later, 10), c.ID)
			}
			if st, err := one.Enter(t.Context(), exclusive(10+i, c.Name)); err != nil || st.Held {
				t.Fatal(st, err)
			}
			if left := at.pttl("pawl:" + c.Name); left > one.TTL() {
				t.Errorf("%s is held for %v more, with a TTL of %v", c.Name, left, one.TTL())
			}
		}
	})
}
