package sqllock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Of a long line only the front is read. These tests are about what must be noticed all
// the same.

// untilHeld beats until got has a standing, for which it waits at most limit.
func untilHeld(t *testing.T, got <-chan driver.Standing, limit time.Duration, beat func()) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < limit; {
		beat()
		select {
		case <-got:
			return
		case <-time.After(300 * time.Millisecond):
		}
	}
	t.Errorf("it did not have its turn in %v", limit)
}

// Holders do not look at the line, however many there are.
func TestADeadPermitBehindManyIsNoticed(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		const ttl, n, dead = time.Second, 100, 80
		name := nameOf(t)
		permit := func() driver.Claim {
			c := mutex(name)
			c.Limit = n
			return c
		}
		dying, living := openSession(t, r.engine(t), ttl), openSession(t, r.engine(t), time.Minute)
		var live []driver.Claim
		for i := range n {
			c := permit()
			if i == dead {
				hold(t, dying, c)
				continue
			}
			hold(t, living, c)
			live = append(live, c)
		}
		c := permit()
		got := awaitHeld(t, living, c, enter(t, living, c))
		untilHeld(t, got, 15*ttl, func() { beatAll(t, living, append(live, c)...) }) // a sweep comes after 30
	})
}

// The first that waits is a claim of the same process that nobody beats: its expiry
// concerns those behind it.
func TestAnUnbeatenClaimOfTheSameProcessIsNoticed(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		name, e := nameOf(t), r.engine(t)
		reader := func() driver.Claim {
			c := mutex(name)
			c.Limit = driver.All
			return c
		}
		holder, h := openSession(t, r.engine(t), 20*time.Second), reader()
		hold(t, holder, h)
		short, long := openSession(t, e, time.Second), openSession(t, e, 20*time.Second)
		writer, next := mutex(name), reader()
		entered := enter(t, short, writer)
		go func() { _, _ = short.Await(t.Context(), writer, entered) }() // ends with the test's context
		got := awaitHeld(t, long, next, enter(t, long, next))
		untilHeld(t, got, 15*time.Second, func() {
			beatAll(t, holder, h)
			beatAll(t, long, next)
		})
	})
}

// A release whose process dies before it grants the name leaves a line that nobody holds.
// Those far behind leave it to others for a while, and not for ever.
func TestALineThatNobodyHoldsIsAdvancedFromBehind(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = time.Minute
		name, s := nameOf(t), openSession(t, r.engine(t), ttl)
		hold(t, s, mutex(name))
		for range 40 {
			enter(t, s, mutex(name))
		}
		c := mutex(name)
		st := enter(t, s, c)
		r.exec(t, "UPDATE pawl_head SET x_id = '', x_until = 0, departed = departed + 1 WHERE name = ?", name)
		held := func() bool {
			return r.number(t, "SELECT count(*) FROM pawl_head WHERE name = ? AND x_id <> ''", name) > 0
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
		defer cancel()
		for !held() && ctx.Err() == nil {
			look, stop := context.WithTimeout(ctx, 500*time.Millisecond)
			if next, err := s.Await(look, c, st); err == nil {
				st = next
			}
			stop()
		}
		if ctx.Err() != nil {
			t.Errorf("not advanced in %v", ttl/4)
		}
	})
}

// The line is short now, although it was long when the claim entered it.
func TestTheLastOfALineThatWasLongLooksInTime(t *testing.T) {
	r := pushed(t).apart(t)
	const ttl = 2 * time.Second
	name := nameOf(t)
	front, waiter := openSession(t, r.engine(t), time.Minute), openSession(t, r.engine(t), ttl)
	line := make([]driver.Claim, 200)
	for i := range line {
		line[i] = mutex(name)
		enter(t, front, line[i])
	}
	c := mutex(name)
	got := awaitHeld(t, waiter, c, enter(t, waiter, c))
	last := line[len(line)-1]
	between := line[1 : len(line)-1]
	front.(driver.Leaver).LeaveAll(t.Context(), between, make([]error, len(between)))
	if err := front.Leave(t.Context(), line[0]); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 2500*time.Millisecond; { // LISTEN has been tried
		beatAll(t, waiter, c)
		time.Sleep(ttl / 5)
	}
	if !beatAll(t, front, last)[0].Held {
		t.Fatal("the last does not hold")
	}
	r.exec(t, "UPDATE pawl_head SET x_id = '', x_until = 0, departed = departed + 1 WHERE name = ?", name) // the grantor dies
	untilHeld(t, got, 5*ttl, func() { beatAll(t, waiter, c) })
}

// One Await of a claim ends, and another, which began later, still learns of the turn.
func TestTwoAwaitsOfOneClaimEachHaveAPlace(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = time.Minute
		name, holder, waiter := nameOf(t), openSession(t, r.engine(t), ttl), openSession(t, r.engine(t), ttl)
		h, c := mutex(name), mutex(name)
		hold(t, holder, h)
		last := enter(t, waiter, c)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan struct{})
		go func() { defer close(first); _, _ = waiter.Await(ctx, c, last) }()
		time.Sleep(100 * time.Millisecond)
		got := awaitHeld(t, waiter, c, last)
		time.Sleep(100 * time.Millisecond)
		cancel()
		<-first
		if err := holder.Leave(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		untilHeld(t, got, ttl/4, func() {}) // a look without a notice comes with the holder's expiry
	})
}
