package testserver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// needRedis is startIfInstalled for a test that starts several servers.
func needRedis(t *testing.T) {
	t.Helper()
	if _, _, err := redis().locate(); err != nil {
		t.Skipf("optional server: %v", err)
	}
}

func expect(t *testing.T, s *Server, want any, command ...string) {
	t.Helper()
	if got := must(t, s.Addr(), command...); got != want {
		t.Errorf("%s: %v: %v, want %v", s.Addr(), command, got, want)
	}
}

func expectRefusal(t *testing.T, s *Server, want string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	answer, err := ask(ctx, s.Addr(), command...)
	if said := refusal(""); !errors.As(err, &said) || string(said) != want {
		t.Errorf("%s: %v: %v, %v, want %s", s.Addr(), command, answer, err, want)
	}
}

func TestAReplicaFollowsItsMasterOverARestart(t *testing.T) {
	t.Parallel()
	needRedis(t)
	master := Redis(t)
	must(t, master.Addr(), "SET", "before", "1")
	replica := RedisReplica(t, master.Addr())
	expect(t, replica, "1", "GET", "before")
	replica.Kill()
	must(t, master.Addr(), "SET", "meanwhile", "2")
	replica.Restart()
	await(t, "the link", func(ctx context.Context) error { return expectReplicas(ctx, master.Addr(), 1) })
	expect(t, replica, "2", "GET", "meanwhile")
	expectRefusal(t, replica, "READONLY You can't write against a read only replica.", "SET", "k", "v")
}

func TestSentinelsReplaceADeadMaster(t *testing.T) {
	t.Parallel()
	needRedis(t)
	c := RedisSentinel(t)
	first := c.AwaitMaster()
	if first != c.Nodes[0] {
		t.Fatalf("the master is %s, want the first node", first.Addr())
	}
	c.AwaitReplicas(first, 2)
	must(t, first.Addr(), "SET", "k", "v")
	for _, s := range c.Nodes[1:] {
		await(t, "replication", func(ctx context.Context) error {
			if answer, err := ask(ctx, s.Addr(), "GET", "k"); err != nil || answer != "v" {
				return fmt.Errorf("%v, %v", answer, err)
			}
			return nil
		})
	}
	begun := time.Now()
	first.Kill()
	second := c.AwaitMaster(first)
	t.Logf("another master after %v", time.Since(begun).Round(time.Millisecond))
	c.AwaitReplicas(second, 1)
	expect(t, second, "v", "GET", "k")
	expect(t, second, "OK", "SET", "k", "w")

	// A master that comes back becomes a replica and stays one.
	first.Restart()
	c.AwaitReplicas(second, 2)
	t.Logf("two replicas again after %v", time.Since(begun).Round(time.Millisecond))
	first.Restart()
	c.AwaitReplicas(second, 2)
	expect(t, first, "w", "GET", "k")
}

func TestSentinelsReplaceASilentMaster(t *testing.T) {
	t.Parallel()
	needRedis(t)
	c := RedisSentinel(t)
	c.Sentinels[2].Kill() // two of three are enough
	c.Nodes[0].Pause()
	second := c.AwaitMaster(c.Nodes[0])
	c.Nodes[0].Resume()
	c.AwaitReplicas(second, 2)
}

func TestAClusterServesEverySlotOnce(t *testing.T) {
	t.Parallel()
	needRedis(t)
	c := RedisCluster(t)
	for _, key := range []string{"a", "b", "c", "{a}b"} {
		slot := c.Slot(key)
		owner := c.Owner(slot)
		expect(t, owner, "OK", "SET", key, "v")
		for _, s := range c.Nodes {
			if s != owner {
				expectRefusal(t, s, fmt.Sprintf("MOVED %d %s", slot, owner.Addr()), "GET", key)
			}
		}
	}
	if c.Slot("a") != c.Slot("{a}b") || c.Slot("a") == c.Slot("b") {
		t.Error("slots are not those of the keys")
	}
	c.Nodes[1].Kill()
	c.Nodes[1].Restart()
	c.AwaitOK()
}

func TestASlotMovesInSteps(t *testing.T) {
	t.Parallel()
	needRedis(t)
	c := RedisCluster(t)
	slot := c.Slot("{x}")
	from := c.Owner(slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	must(t, from.Addr(), "SET", "{x}here", "1")
	m := c.BeginMove(slot, to)
	expect(t, from, "1", "GET", "{x}here")
	ask := fmt.Sprintf("ASK %d %s", slot, to.Addr())
	expectRefusal(t, from, ask, "SET", "{x}new", "2")
	expectRefusal(t, to, fmt.Sprintf("MOVED %d %s", slot, from.Addr()), "GET", "{x}here")
	if keys := m.Keys(); len(keys) != 1 || keys[0] != "{x}here" {
		t.Errorf("moved %v", keys)
	}
	expectRefusal(t, from, ask, "GET", "{x}here")
	m.Finish()
	expect(t, to, "1", "GET", "{x}here")
	expectRefusal(t, from, fmt.Sprintf("MOVED %d %s", slot, to.Addr()), "GET", "{x}here")
	if c.Owner(slot) != to {
		t.Errorf("the owner is %s, want %s", c.Owner(slot).Addr(), to.Addr())
	}
	c.Move(slot, from)
	expect(t, from, "1", "GET", "{x}here")
}
