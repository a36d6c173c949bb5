//go:build unix

package main

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/internal/testserver"
)

// etcdctl lock lets its command continue after its lease is revoked, beside the
// next holder's, and exits with 0.
func TestACommandIsStoppedWhenItsEtcdLeaseIsRevoked(t *testing.T) {
	t.Parallel()
	addr := testserver.Etcd(t).Addr()
	expectStopped(t, "etcd://"+addr, func() { revokeAll(t, addr) })
}

func TestACommandIsStoppedWhenItsNATSBucketIsDeleted(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	expectStopped(t, "nats://"+addr+"/jobs", func() {
		conn, err := nats.Connect(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteKeyValue(t.Context(), "jobs"); err != nil {
			t.Fatal(err)
		}
	})
}

// expectStopped checks that a command ends soon after the store has lost its lock.
func expectStopped(t *testing.T, store string, lose func()) {
	t.Helper()
	env := newTestEnv(t).with("PAWL_STORE=" + store)
	env.write("works", `trap 'echo TERM >told; exit 0' TERM
echo $PAWL_LOCK_TOKEN >up
while :; do sleep 0.05; done
`)
	cmd := env.command("pawl", "run", "--ttl", "12s", "--kill-after", "5s", "job", "--", "sh", "works")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // the command ends when it is told to, or is killed below
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	env.await("up")
	lose()
	select {
	case err := <-ended:
		if code := exitOf(t, err); code != 79 {
			t.Errorf("exit %d, not 79:\n%s", code, said.String())
		}
	case <-time.After(testTimeout):
		t.Fatal("the command goes on without its lease")
	}
	if got := env.read("told"); got != "TERM\n" {
		t.Errorf("the command was told %q, not TERM", got)
	}
	if !strings.Contains(said.String(), `pawl: lost "job"`) {
		t.Errorf("pawl says only\n%s", said.String())
	}
	next := env.run("pawl", "run", "job", "--", "sh", "-c", "echo $PAWL_LOCK_TOKEN")
	if before := tokenIn(t, env.read("up")); next.code != 0 || tokenIn(t, next.out) <= before {
		t.Errorf("the next holder: exit %d, token %q after %d, %s", next.code, next.out, before, next.err)
	}
}

// tokenIn returns the token that a command printed.
func tokenIn(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// revokeAll revokes every lease of a cluster.
func revokeAll(t *testing.T, addr string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Leases) == 0 {
		t.Fatal("nobody has a lease")
	}
	for _, l := range all.Leases {
		if _, err := c.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
}
