package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// Of three names two are one server, which would be a majority by itself.
func TestOneServerNamedTwiceIsRefused(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 2, shortMaxTTL)
	a, b := f.servers[0].Addr(), f.servers[1].Addr()
	for about, twice := range map[string]string{
		"by another name of the host": strings.Replace(b, "127.0.0.1", "localhost", 1),
		"through a proxy":             faultproxy.New(t, b).Addr(),
		"through two proxies":         faultproxy.New(t, faultproxy.New(t, b).Addr()).Addr(),
	} {
		refused := func() error {
			c, err := pawl.Open(t.Context(), f.url(a, b, twice), pawl.WithTTL(5*time.Second))
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.Mutex("name").TryLock(t.Context()); err == nil {
				t.Errorf("%s: opened, and locked", about)
			}
			return nil
		}
		// On a loaded machine one of the servers may connect too late, and Open succeeds
		// without it. Then TryLock is refused, and so is the next Open.
		var err error
		until(t, 30*time.Second, about+": refused", func() bool { err = refused(); return err != nil })
		if !errors.Is(err, driver.ErrURL) || !strings.Contains(err.Error(), b) || !strings.Contains(err.Error(), twice) {
			t.Errorf("%s: %v, want one that names %s and %s", about, err, b, twice)
		}
	}
}

// The third name is unreachable when the quorum is opened, and later turns out to be the
// second server: a port forward that was made by mistake.
func TestAServerThatTurnsOutToBeAnotherNodeHasNoVoteAndIsReported(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	names := f.hosts()
	first := open(t, names, f.query) // it starts the quorum on three servers
	s := openSession(t, first, "first", ttl)
	held(t, s, exclusive("aa", "other"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f.proxies[2].Refuse()
	f.proxies[2].Reset()
	f.proxies[2].Retarget(f.servers[1].Addr())
	e := open(t, names, f.query)
	defer e.Close()
	c := pawl.New(e, pawl.WithTTL(ttl))
	defer c.Close()
	lease := lock(t, c, "name") // by the two correct nodes
	f.proxies[2].Heal()
	until(t, 20*time.Second, "refused", func() bool {
		l, err := c.Mutex("next").TryLock(t.Context())
		if err == nil {
			_ = l.Unlock()
			return false
		}
		return errors.Is(err, driver.ErrDenied) && strings.Contains(err.Error(), names[1]) && strings.Contains(err.Error(), names[2])
	})
	if err := lease.Err(); err != nil {
		t.Errorf("the lease was lost: %v", err)
	}
	// The second server by itself has two names and no majority.
	f.proxies[0].BlackHole(faultproxy.Both)
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	if l, err := c.Mutex("alone").TryLock(ctx); err == nil {
		t.Errorf("one server alone has granted a lock: token %d", l.Fence())
	}
}

// An address is moved to another node's server after the session was opened.
func TestAnAddressThatMovesToAnotherNodesServerHasNoVote(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	s := f.session(t, "s", ttl)
	held(t, s, exclusive("aa", "warm"))
	_ = s.Leave(t.Context(), exclusive("aa", "warm"))
	f.proxies[0].Refuse() // the first is unreachable: both others must vote
	f.proxies[0].Reset()
	f.proxies[2].Retarget(f.servers[1].Addr())
	f.proxies[2].Reset()
	granted, refused := 0, 0
	c := exclusive("bb", "name")
	for start := time.Now(); time.Since(start) < 2*ttl && refused < 20; c.Try++ {
		st, err := s.Enter(t.Context(), c)
		if err == nil && st.Held {
			granted++
		}
		if errors.Is(err, driver.ErrDenied) {
			refused++
		}
	}
	if granted > 0 || refused == 0 {
		t.Errorf("one server that answers for two nodes has granted %d times alone, and was refused %d times", granted, refused)
	}
	f.proxies[2].Retarget(f.servers[2].Addr()) // repaired
	f.proxies[2].Reset()
	f.proxies[0].Heal()
	until(t, 20*time.Second, "held again", func() bool {
		_ = s.Beat(t.Context(), nil, nil)
		c.Try++
		st, err := s.Enter(t.Context(), c)
		return err == nil && st.Held
	})
}
