package faultproxy

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestChunksAreCountedBeforeTheReplyIsRead(t *testing.T) {
	t.Parallel()
	p := New(t, conntest.NewLineServer(t).Addr)
	var stages [Swallowed + 1]atomic.Int64
	p.OnChunk(func(c Chunk) {
		stages[c.Stage].Add(1)
		if c.Conn != 1 {
			t.Errorf("connection %d, want 1", c.Conn)
		}
	})
	c := dial(t, p)
	for i := 1; i <= 10; i++ {
		c.send("a")
		c.expect("a!")
		if n := p.Forwarded(ToServer); n != i {
			t.Fatalf("%d requests counted, want %d", n, i)
		}
		if n := p.Forwarded(Both); n != 2*i {
			t.Fatalf("%d chunks counted, want %d", n, 2*i)
		}
	}
	if a, f := stages[Arrived].Load(), stages[Forwarded].Load(); a != 20 || f != 20 {
		t.Errorf("%d chunks arrived and %d forwarded, want 20 each", a, f)
	}
}

func TestAFaultSetOnArrivalHoldsForThatChunk(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	p.OnChunk(func(c Chunk) {
		if c.Stage == Arrived && c.Dir == ToServer {
			p.BlackHole(ToServer)
		}
	})
	c := dial(t, p)
	c.send("a")
	conntest.ExpectNothing(t, s.Lines)
}

func TestAHookMayResetTheConnection(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	p.OnChunk(func(c Chunk) {
		if c.Stage == Arrived && c.Dir == ToClient {
			p.Reset()
		}
	})
	c := dial(t, p)
	c.send("a")
	c.expectReset()
	if err := conntest.Receive(t, s.Ends); err == io.EOF {
		t.Error("the server saw an orderly end instead of a reset")
	}
}

func TestAFaultSetOnForwardingHoldsForTheReply(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	replied := make(chan struct{}, 1)
	p.OnChunk(func(c Chunk) {
		switch {
		case c.Stage == Forwarded && c.Dir == ToServer:
			time.Sleep(10 * time.Millisecond) // a request that was already written would have arrived by now
			if len(s.Lines) > 0 {
				t.Error("the server has the request before the hook has returned")
			}
			p.BlackHole(ToClient)
		case c.Stage == Forwarded && c.Dir == ToClient:
			replied <- struct{}{}
		}
	})
	c := dial(t, p)
	c.send("a")
	conntest.Receive(t, s.Lines)
	conntest.ExpectNothing(t, replied)
}
