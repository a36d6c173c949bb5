package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

func TestAnAcquireWhoseReplyIsLostLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+p.Addr())
	unlock(t, lock(t, c.Mutex("warm")))
	for _, name := range []string{"held", "queued"} {
		var other *pawl.Lease
		if name == "queued" {
			other = lock(t, open(t, "redis://"+s.Addr()).Mutex(name))
		}
		p.SwallowReplies(1, faultproxy.ThenCut(), matching(name))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		got := make(chan error, 1)
		var l *pawl.Lease
		go func() {
			var err error
			l, err = c.Mutex(name).Lock(ctx)
			got <- err
		}()
		if other != nil {
			until(t, 5*time.Second, "asked", func() bool { return p.Swallowed() > 1 })
			unlock(t, other)
		}
		if err := <-got; err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			unlock(t, l)
		}
		cancel()
		until(t, 5*time.Second, "free", func() bool { return at.do("EXISTS", "pawl:"+name, "pawl:\x01h"+name) == "0" })
	}
}

func TestAnAcquireThatEndsBeforeItsReplyIsGivenBack(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+p.Addr())
	unlock(t, lock(t, c.Mutex("warm")))
	p.Delay(faultproxy.ToClient, 300*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Mutex("name").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock: %v", err)
	}
	p.Heal()
	until(t, 5*time.Second, "given back", func() bool { return at.do("EXISTS", "pawl:name") == "0" })
}

func TestAReleaseDoesNotDependOnTheAcquiresContext(t *testing.T) {
	t.Parallel()
	s, _ := proxied(t)
	at := newConsole(t, s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	l, err := open(t, "redis://"+s.Addr()).Mutex("name").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := l.Err(); err != nil {
		t.Errorf("the end of the wait's ctx ended the hold: %v", err)
	}
	unlock(t, l)
	if at.do("EXISTS", "pawl:name") != "0" {
		t.Error("the key is still there")
	}
}

func TestAReleaseWhoseReplyIsLostIsSettled(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+p.Addr())
	unlock(t, lock(t, c.Mutex("warm"))) // the server has the scripts: the lost reply is not that it has not
	l := lock(t, c.Mutex("name"))
	p.SwallowReplies(1, faultproxy.ThenCut(), matching("name"))
	if err := l.Unlock(); !errors.Is(err, pawl.ErrUnknown) || errors.Is(err, pawl.ErrLost) {
		t.Errorf("Unlock: %v; it is not known whether the first call gave the lock back", err)
	}
	if p.Swallowed() != 1 || at.do("EXISTS", "pawl:name") != "0" {
		t.Errorf("%d replies were lost; the key is still there: %s", p.Swallowed(), at.do("EXISTS", "pawl:name"))
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrNotHeld) {
		t.Errorf("a second Unlock: %v", err)
	}
	next := lock(t, open(t, "redis://"+s.Addr()).Mutex("name")) // of another client
	if err := l.Unlock(); !errors.Is(err, pawl.ErrNotHeld) || next.Err() != nil {
		t.Errorf("Unlock of an earlier lease: %v, the later one: %v", err, next.Err())
	}
	unlock(t, next)
}

// The server receives no Leave until the link works again.
func TestAReleaseThatCannotBeSentIsSettledLater(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+p.Addr(), pawl.WithTTL(20*time.Second))
	l := lock(t, c.Mutex("name"))
	p.BlackHole(faultproxy.Both)
	if err := l.Unlock(); !errors.Is(err, pawl.ErrUnknown) {
		t.Errorf("Unlock into a black hole: %v, not ErrUnknown", err)
	}
	mend(p)
	until(t, 15*time.Second, "given back", func() bool { return at.do("EXISTS", "pawl:name") == "0" })
}
