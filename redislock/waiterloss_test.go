package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The subscription is cut while a client waits.
func TestAWaiterOutlivesItsSubscription(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at := newConsole(t, s.Addr())
	holder, waiter := open(t, "redis://"+s.Addr()), open(t, "redis://"+p.Addr())
	for _, cut := range []func(){
		func() { at.do("CLIENT", "KILL", "TYPE", "pubsub") },
		p.Reset,
	} {
		l := lock(t, holder.Mutex("name"))
		got := make(chan *pawl.Lease, 1)
		go func() {
			next, err := waiter.Mutex("name").Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		until(t, 5*time.Second, "in line", func() bool { return at.do("EXISTS", "pawl:\x01hname") == "1" })
		cut()
		time.Sleep(200 * time.Millisecond)
		w := startWatch()
		defer w.end()
		unlock(t, l)
		select {
		case next := <-got:
			if took := w.spent(); took > 3*time.Second {
				t.Errorf("held %v after the release", took)
			}
			unlock(t, next)
		case <-time.After(15 * time.Second):
			t.Fatal("a waiter whose subscription was cut sleeps on")
		}
	}
}

// All data are lost while a client waits.
func TestAWaiterOutlivesAFlush(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	const ttl = steady
	holder, waiter := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	l := lock(t, holder.Mutex("name"))
	got := make(chan error, 1)
	go func() {
		next, err := waiter.Mutex("name").Lock(context.Background())
		if err == nil {
			err = next.Unlock()
		}
		got <- err
	}()
	until(t, 5*time.Second, "in line", func() bool { return at.do("EXISTS", "pawl:\x01hname") == "1" })
	at.do("FLUSHALL")
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * ttl):
		t.Fatal("a waiter whose place was flushed sleeps on")
	}
	lost(t, l, ttl)
}

// A waiter gives up at the moment of its grant.
func TestACancelledWaiterPassesItsGrantOn(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	holder, other := open(t, "redis://"+s.Addr()), open(t, "redis://"+s.Addr())
	for i := range 30 {
		l := lock(t, holder.Mutex("name"))
		ctx, cancel := context.WithCancel(t.Context())
		gave := make(chan struct{})
		go func() {
			defer close(gave)
			if l, err := other.Mutex("name").Lock(ctx); err == nil {
				_ = l.Unlock()
			}
		}()
		until(t, 5*time.Second, "in line", func() bool { return at.do("EXISTS", "pawl:\x01hname") == "1" })
		go cancel()
		if i%2 == 0 {
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
		}
		unlock(t, l)
		<-gave
		try, stop := context.WithTimeout(t.Context(), 5*time.Second)
		next, err := holder.Mutex("name").Lock(try)
		stop()
		if err != nil {
			t.Fatalf("round %d: the grant of a waiter that gave up is lost: %v", i, err)
		}
		unlock(t, next)
	}
}
