package adaptertest

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

// unblocked ends a WAIT by CLIENT UNBLOCK, as a failover of the server does.
func unblocked(t *testing.T, connect Adapter) {
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	way := faultproxy.New(t, s.Addr())
	testserver.RedisReplica(t, way.Addr(), "--repl-timeout", "600")
	c := pawl.New(connect(t, Config{Addrs: []string{s.Addr()}}, redislock.WithWait(1, 20*time.Second)), pawl.WithTTL(time.Minute))
	defer c.Close()
	lock := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l, err := c.Mutex("job").Lock(ctx)
		if err == nil {
			err = l.Unlock()
		}
		return err
	}
	if err := lock(); err != nil { // so that the server has the script: a WAIT behind a missing one is for nothing
		t.Fatal(err)
	}
	way.BlackHole(faultproxy.Both)
	got := make(chan error, 1)
	go func() { got <- lock() }()
	waits := regexp.MustCompile(`(?m)^id=(\d+) .* cmd=wait `)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if m := waits.FindStringSubmatch(at.do("CLIENT", "LIST")); m != nil {
			ended, err := at.c.Do(t.Context(), at.c.B().Arbitrary("CLIENT", "UNBLOCK", m[1], "ERROR").Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			if ended == 1 { // it may wait only a moment after it is listed
				break
			}
		}
		if time.Since(began) > 2*soon {
			t.Fatal("no client waits for the replica")
		}
	}
	way.Heal()
	if err := <-got; err != nil {
		t.Errorf("Lock, whose WAIT was ended once: %v", err)
	}
}

// closedClient locks on a client that its program has closed: no call will succeed, unlike
// one to a server that is down. Connections that were lent live on until they end.
func closedClient(t *testing.T, connect Adapter) {
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	e := connect(t, Config{Addrs: []string{s.Addr()}})
	c := pawl.New(e, pawl.WithTTL(time.Minute))
	defer c.Close()
	e.CloseClient()
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon)
	defer cancel()
	for {
		l, err := c.Mutex("job").Lock(ctx)
		if err == nil {
			_ = l.Unlock()
			at.do("CLIENT", "KILL", "TYPE", "normal")
			continue
		}
		if errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil || !strings.Contains(err.Error(), "client is closed") {
			t.Errorf("Lock on a client that is closed: %v", err)
		}
		break
	}
	one := session(t, connect(t, Config{Addrs: []string{s.Addr()}}), time.Minute)
	s.Kill()
	if _, err := one.Enter(t.Context(), mutex("aa", "down")); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Enter at a server that is down: %v, not ErrUnreachable", err)
	}
}

// clusterNode uses a node of a cluster as if it were a single server.
func clusterNode(t *testing.T, connect Adapter) {
	s := testserver.RedisCluster(t)
	c := pawl.New(connect(t, Config{Addrs: s.Addrs()[:1]}), pawl.WithTTL(time.Minute))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon)
	defer cancel()
	for _, name := range []string{"a", "b", "c"} { // in slots of several nodes
		_, err := c.Mutex(name).Lock(ctx)
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("Lock of %s at a node of a cluster: %v", name, err)
		}
	}
}
