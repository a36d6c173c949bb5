package faultproxy

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestSwallowedRepliesWereAskedFor(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	swallowed := chunksAt(p, ToClient, Swallowed)
	c := dial(t, p)
	p.SwallowReplies(2)
	for _, line := range []string{"a", "b"} {
		c.send(line)
		if got := conntest.Receive(t, s.Lines); got != line {
			t.Fatalf("the server read %q, want %q", got, line)
		}
		if got := conntest.Receive(t, swallowed); string(got.Data) != line+"!\n" {
			t.Fatalf("swallowed %q", got.Data)
		}
	}
	// The connection stayed open, and the first reply to pass is the third.
	c.send("c")
	c.expect("c!")
	if n := p.Swallowed(); n != 2 {
		t.Errorf("%d replies counted as swallowed, want 2", n)
	}
}

func TestSwallowThenCutResetsTheConnection(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	p.SwallowReplies(1, ThenCut())
	c := dial(t, p)
	c.send("a")
	c.expectReset()
	if got := conntest.Receive(t, s.Lines); got != "a" {
		t.Errorf("the server read %q before the cut", got)
	}
	if n := p.Swallowed(); n != 1 {
		t.Errorf("%d replies counted as swallowed, want 1", n)
	}
	next := dial(t, p)
	next.send("b")
	next.expect("b!")
}

func TestSwallowThenSilentDropsAllThatFollows(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	p.SwallowReplies(1, ThenSilent())
	swallowed := chunksAt(p, ToClient, Swallowed)
	c := dial(t, p)
	for _, line := range []string{"a", "b"} {
		c.send(line)
		if got := conntest.Receive(t, swallowed); string(got.Data) != line+"!\n" {
			t.Fatalf("swallowed %q", got.Data)
		}
	}
	if n := p.Swallowed(); n != 1 {
		t.Errorf("%d replies counted as swallowed, want 1", n)
	}
	next := dial(t, p)
	next.send("c")
	next.expect("c!")
}

func TestSwallowOnlyMatchingRequests(t *testing.T) {
	t.Parallel()
	p := New(t, conntest.NewLineServer(t).Addr)
	p.SwallowReplies(1, Matching(func(request []byte) bool {
		return strings.HasPrefix(string(request), "take")
	}))
	swallowed := chunksAt(p, ToClient, Swallowed)
	c := dial(t, p)
	c.send("ping")
	c.expect("ping!")
	c.send("take")
	conntest.Receive(t, swallowed)
	c.send("take")
	c.expect("take!")
}

func TestAReplyOfManyChunksIsSwallowedWhole(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	p := New(t, newEcho(t))
	var gone atomic.Int64
	all := make(chan struct{})
	p.OnChunk(func(c Chunk) {
		if c.Stage == Swallowed && gone.Add(int64(len(c.Data))) == size {
			close(all)
		}
	})
	// At most one reply per request chunk.
	p.SwallowReplies(size)
	c := dial(t, p)
	if _, err := c.Write(bytes.Repeat([]byte("x"), size)); err != nil {
		t.Fatal(err)
	}
	conntest.Receive(t, all)
	p.Heal()
	c.send("a")
	c.expect("a")
}

func TestHealForgetsRepliesLeftToSwallow(t *testing.T) {
	t.Parallel()
	p := New(t, conntest.NewLineServer(t).Addr)
	p.SwallowReplies(5)
	p.Heal()
	c := dial(t, p)
	c.send("a")
	c.expect("a!")
}
