package adaptertest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

const (
	// silentTTL is long enough for a busy machine to detect a dead connection and to make
	// another.
	silentTTL = 5 * time.Second
	// idle is how many connections the program has used before.
	idle = 20
)

// A silencer is a link whose connections stop carrying data, all at once, while new ones
// work, as when a firewall has lost its state.
type silencer struct {
	t      *testing.T
	server string
	proxy  atomic.Pointer[faultproxy.Proxy] // of the connections from now on
	dead   []*faultproxy.Proxy
}

func newSilencer(t *testing.T, server string) *silencer {
	s := &silencer{t: t, server: server}
	s.proxy.Store(faultproxy.New(t, server))
	return s
}

func (s *silencer) dial(string) (net.Conn, error) { return net.Dial("tcp", s.proxy.Load().Addr()) }

// silence silences the present connections.
func (s *silencer) silence() {
	old := s.proxy.Swap(faultproxy.New(s.t, s.server))
	old.BlackHole(faultproxy.Both)
	s.dead = append(s.dead, old)
}

// reset ends the silent connections: Close would wait for their replies.
func (s *silencer) reset() {
	for _, p := range s.dead {
		p.Reset()
	}
}

// A silenced is a client that has a lock and idle connections, all of them silent.
type silenced struct {
	*pawl.Client
	held *pawl.Lease
	link *silencer
}

func newSilenced(t *testing.T, connect Adapter, opts ...redislock.Option) silenced {
	t.Helper()
	server := testserver.Redis(t)
	testserver.RedisReplica(t, server.Addr())
	link := newSilencer(t, server.Addr())
	e := connect(t, Config{Addrs: []string{server.Addr()}, Dial: link.dial}, opts...)
	c := pawl.New(e, pawl.WithTTL(silentTTL))
	t.Cleanup(func() { _ = c.Close() })
	t.Cleanup(link.reset)
	if err := e.Borrow(t.Context(), idle); err != nil {
		t.Fatal(err)
	}
	l, err := c.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	link.silence()
	return silenced{c, l, link}
}

func outlivesSilence(t *testing.T, connect Adapter) {
	for name, opts := range map[string][]redislock.Option{"alone": nil, "with replicas": {redislock.WithWait(1, 2*time.Second)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stalltest.Succeeds(t, silentTTL/10, func() error {
				s := newSilenced(t, connect, opts...)
				if err := renewed(s.held, time.Now().Add(silentTTL)); err != nil {
					return err
				}
				s.link.silence() // and those that replaced them
				return driver.Join(renewed(s.held, time.Now().Add(2*silentTTL)), s.held.Unlock())
			})
		})
	}
}

// renewed waits until a lease has been renewed until a time.
func renewed(l *pawl.Lease, until time.Time) error {
	for !l.Deadline().After(until) {
		select {
		case <-l.Context().Done():
			return context.Cause(l.Context())
		case <-time.After(silentTTL / 50):
		}
	}
	return nil
}

// A free name takes as long as it takes to find, once, that a connection is dead.
func locksAfterSilence(t *testing.T, connect Adapter) {
	stalltest.Succeeds(t, silentTTL/10, func() error {
		s := newSilenced(t, connect)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*silentTTL)
		defer cancel()
		l, err := s.Mutex("free").Lock(ctx)
		if took := time.Since(began); err != nil || took > silentTTL {
			return fmt.Errorf("Lock of a free name took %v: %v", took, err)
		}
		t.Logf("a free name took %v", time.Since(began))
		return l.Unlock()
	})
}

func unlocksAfterSilence(t *testing.T, connect Adapter) {
	stalltest.Succeeds(t, silentTTL/10, func() error {
		s := newSilenced(t, connect)
		began := time.Now()
		err := s.held.Unlock()
		if took := time.Since(began); err != nil || took > silentTTL {
			return fmt.Errorf("Unlock took %v: %v", took, err)
		}
		t.Logf("Unlock took %v", time.Since(began))
		return nil
	})
}
