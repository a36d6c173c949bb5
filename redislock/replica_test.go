package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAGrantWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	link := faultproxy.New(t, master.Addr())
	testserver.RedisReplica(t, master.Addr())
	cut := testserver.RedisReplica(t, link.Addr())
	at := newConsole(t, master.Addr())
	url := "redis://" + master.Addr() + "?wait-timeout=3s&wait="
	two, one := open(t, url+"2"), open(t, url+"1")
	unlock(t, lock(t, two.Mutex("name")))
	link.BlackHole(faultproxy.Both)
	_ = cut
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := two.Mutex("name").TryLock(ctx)
	if err == nil || errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "1 of 2 replicas") {
		t.Errorf("with one of two replicas: %v", err)
	}
	until(t, 5*time.Second, "undone", func() bool { return at.do("EXISTS", "pawl:name") == "0" })
	l := lock(t, one.Mutex("name")) // one replica is enough for this client
	w := startWatch()
	defer w.end()
	unlock(t, l)
	if took := w.spent(); took > 1500*time.Millisecond {
		t.Errorf("a release took %v: it must not wait for replicas", took)
	}
	if _, err := open(t, url+"3").Mutex("name").TryLock(ctx); err == nil || !strings.Contains(err.Error(), "of 3 replicas") {
		t.Errorf("more replicas than there are: %v", err)
	}
	alone := testserver.Redis(t)
	if _, err := open(t, "redis://"+alone.Addr()+"?wait=1&wait-timeout=100ms").Mutex("name").TryLock(ctx); err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("a master without replicas: %v", err)
	}
}

// A published grant is confirmed like any other.
func TestAPublishedGrantWaitsForReplicasToo(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	link := faultproxy.New(t, master.Addr())
	testserver.RedisReplica(t, link.Addr())
	at := newConsole(t, master.Addr())
	url := "redis://" + master.Addr() + "?wait=1&wait-timeout=2s"
	holder, waiter := open(t, url), open(t, url)
	hand := func(ctx context.Context) (*pawl.Lease, error) {
		l := lock(t, holder.Mutex("name"))
		type result struct {
			l   *pawl.Lease
			err error
		}
		got := make(chan result, 1)
		go func() {
			l, err := waiter.Mutex("name").Lock(ctx)
			got <- result{l, err}
		}()
		until(t, 5*time.Second, "in line", func() bool { return at.do("EXISTS", "pawl:\x01hname") == "1" })
		if ctx.Value(cutKey{}) != nil {
			link.BlackHole(faultproxy.Both)
		}
		unlock(t, l)
		r := <-got
		return r.l, r.err
	}
	l, err := hand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, l)
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), cutKey{}, true), 8*time.Second)
	defer cancel()
	if l, err := hand(ctx); err == nil {
		t.Errorf("a handed grant that no replica has was returned: token %d", l.Token())
	}
	link.Heal()
}

type cutKey struct{}

// A user without the right to WAIT gets an error, and leaves neither a grant nor a place in
// the line.
func TestAUserWithoutTheRightToWaitLeavesNoClaim(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	at.do("ACL", "SETUSER", "hasty", "on", ">secret", "~*", "&*", "+@all", "-wait")
	hasty, other := open(t, "redis://hasty:secret@"+s.Addr()+"?wait=1"), open(t, "redis://"+s.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for about, held := range map[string]bool{"free": false, "held": true} {
		var l *pawl.Lease
		if held {
			l = lock(t, other.Mutex(about))
		}
		for i := range 3 {
			if _, err := hasty.Mutex(about).Lock(ctx); !errors.Is(err, pawl.ErrDenied) {
				t.Errorf("%s, lock %d: %v, not ErrDenied", about, i, err)
			}
		}
		if n := at.do("EXISTS", "pawl:\x01h"+about); n != "0" {
			t.Errorf("%s: there is a line", about)
		}
		if held {
			unlock(t, l)
		}
		if n := at.do("EXISTS", "pawl:"+about); n != "0" {
			t.Errorf("%s: %q holds it", about, at.do("GET", "pawl:"+about))
		}
	}
}

// A replica that lacks the last grant is promoted. The name is free there, which Redis
// cannot prevent; the old lease ends by its deadline, and the new token is higher.
func TestAReplicaThatIsPromotedTooEarly(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	master := testserver.Redis(t)
	link := faultproxy.New(t, master.Addr())
	replica := testserver.RedisReplica(t, link.Addr())
	old := open(t, "redis://"+master.Addr(), pawl.WithTTL(ttl))
	unlock(t, lock(t, old.Mutex("name"))) // so that the replica has a fence, which lags
	link.BlackHole(faultproxy.Both)
	l := lock(t, old.Mutex("name"))
	at := newConsole(t, replica.Addr())
	at.do("REPLICAOF", "NO", "ONE")
	next := lock(t, open(t, "redis://"+replica.Addr(), pawl.WithTTL(10*ttl)).Mutex("name")) // held beyond the other's end
	if next.Fence() <= l.Fence() {
		t.Errorf("token %d on the promoted replica, %d on the old master: a counter would repeat", next.Fence(), l.Fence())
	}
	master.Kill()
	lost(t, l, ttl)
	unlock(t, next)
}

// After a failover by sentinels, replicated holds and waiters go on, and tokens grow.
func TestSentinelsReplaceTheMaster(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	s := testserver.RedisSentinel(t)
	url := sentinelURL(s)
	c, waiter := open(t, url+"?wait=1", pawl.WithTTL(ttl)), open(t, url, pawl.WithTTL(ttl))
	l := lock(t, c.Mutex("name"))
	got := make(chan *pawl.Lease, 1)
	go func() {
		next, err := waiter.Mutex("name").Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	time.Sleep(200 * time.Millisecond)
	master := s.AwaitMaster()
	master.Kill()
	s.AwaitMaster(master)
	deadline := time.Now().Add(ttl)
	for time.Now().Before(deadline) && l.Err() == nil && time.Until(l.Deadline()) < ttl/2 {
		time.Sleep(20 * time.Millisecond)
	}
	if err := l.Err(); err != nil {
		t.Errorf("a hold that a replica had was lost in the failover: %v", err)
	}
	before := l.Fence()
	_ = l.Unlock() // the outcome may be unknown
	select {
	case next := <-got:
		if next != nil && next.Fence() <= before {
			t.Errorf("token %d after %d", next.Fence(), before)
		}
		if next != nil {
			unlock(t, next)
		}
	case <-time.After(2 * ttl):
		t.Error("the waiter did not go on within two TTLs")
	}
}
