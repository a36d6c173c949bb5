package faultproxy

import (
	"io"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestNothingIsChangedWithoutAFault(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	c := dial(t, p)
	for range 100 {
		c.send("a")
		c.expect("a!")
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := conntest.Receive(t, s.Ends); err != io.EOF {
		t.Errorf("the server saw %v instead of an orderly end", err)
	}
	if b, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("the client read %q, %v instead of an orderly end", b, err)
	}
}

func TestAnAbortReachesTheOtherSideAsReset(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	c := dial(t, p)
	c.send("a")
	c.expect("a!")
	reset(c.TCPConn)
	if err := conntest.Receive(t, s.Ends); err == io.EOF {
		t.Error("the server saw an orderly end instead of a reset")
	}
}

func TestBlackHoleToServerHoldsRequestsUntilHealed(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	c := dial(t, p)
	c.send("a")
	c.expect("a!")
	conntest.Receive(t, s.Lines)

	arrived := chunksAt(p, ToServer, Arrived)
	p.BlackHole(ToServer)
	c.send("b")
	conntest.Receive(t, arrived)
	conntest.ExpectNothing(t, s.Lines)
	p.Heal()
	c.expect("b!")
}

func TestBlackHoleToClientLetsRequestsThrough(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	replies := chunksAt(p, ToClient, Forwarded)
	p.BlackHole(ToClient)
	c := dial(t, p)
	c.send("a")
	if line := conntest.Receive(t, s.Lines); line != "a" {
		t.Fatalf("the server read %q", line)
	}
	conntest.ExpectNothing(t, replies)
	p.Heal()
	c.expect("a!")
}

func TestBlackHoleHidesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*client){
		"orderly": func(c *client) { c.Close() },
		"reset":   func(c *client) { reset(c.TCPConn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := conntest.NewLineServer(t)
			p := New(t, s.Addr)
			c := dial(t, p)
			c.send("a")
			c.expect("a!")
			p.BlackHole(ToServer)
			end(c)
			conntest.ExpectNothing(t, s.Ends)
			p.Heal()
			conntest.Receive(t, s.Ends)
		})
	}
}

// The server only learns of it by writing, through the RST that the client's kernel
// sends back: that RST must not pass the black hole either.
func TestASenderLearnsOfALostReaderWhenHealed(t *testing.T) {
	t.Parallel()
	addr, ends := newTalker(t)
	p := New(t, addr)
	c := dial(t, p)
	c.expect("tick")
	p.BlackHole(ToServer)
	c.Close()
	conntest.ExpectNothing(t, ends)
	p.Heal()
	conntest.Receive(t, ends)
}

func TestBlackHoleKeepsNewConnectionsFromTheServer(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	p.BlackHole(Both)
	c := dial(t, p)
	c.send("a")
	conntest.ExpectNothing(t, s.Calls)
	p.Heal()
	c.expect("a!")
}

func TestWhatIsHeldIsLostWithAReset(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	c := dial(t, p)
	c.send("a")
	c.expect("a!") // the server is reached: from here on the data is held, not the connection
	conntest.Receive(t, s.Lines)
	arrived := chunksAt(p, ToServer, Arrived)
	p.BlackHole(ToServer)
	c.send("b")
	conntest.Receive(t, arrived)
	p.Reset()
	p.Heal()
	c.expectReset()
	conntest.ExpectNothing(t, s.Lines)
}

func TestResetEndsPresentConnectionsOnly(t *testing.T) {
	t.Parallel()
	s := conntest.NewLineServer(t)
	p := New(t, s.Addr)
	var clients []*client
	for range 3 {
		c := dial(t, p)
		c.send("a")
		c.expect("a!")
		clients = append(clients, c)
	}
	p.Reset()
	for _, c := range clients {
		c.expectReset()
		if err := conntest.Receive(t, s.Ends); err == io.EOF {
			t.Error("the server saw an orderly end instead of a reset")
		}
	}
	c := dial(t, p)
	c.send("b")
	c.expect("b!")
	if taken, reached := p.Connections(), p.Reached(); taken != 4 || reached != 4 {
		t.Errorf("%d connections taken and %d reached the server, want 4", taken, reached)
	}
	if n := p.Open(); n != 1 {
		t.Errorf("%d connections open, want 1", n)
	}
}

func TestRefuseTurnsNewConnectionsAway(t *testing.T) {
	t.Parallel()
	p := New(t, conntest.NewLineServer(t).Addr)
	old := dial(t, p)
	old.send("a")
	old.expect("a!")

	p.Refuse()
	expectNoConnection(t, p)
	if n := p.Refused(); n != 1 {
		t.Errorf("%d connections refused, want 1", n)
	}
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections counted, want 1", n)
	}
	old.send("b")
	old.expect("b!")

	p.Heal()
	c := dial(t, p)
	c.send("c")
	c.expect("c!")
}

func TestAServerThatIsDownShowsAsReset(t *testing.T) {
	t.Parallel()
	p := New(t, "127.0.0.1:1") // nothing listens on tcpmux
	expectNoConnection(t, p)
	if taken, reached := p.Connections(), p.Reached(); taken != 1 || reached != 0 {
		t.Errorf("%d connections taken, and %d reached it", taken, reached)
	}
}

func TestASenderIntoABlackHoleIsPushedBack(t *testing.T) {
	t.Parallel()
	p := New(t, newEcho(t))
	c := dial(t, p)
	p.BlackHole(ToServer)
	c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	data := make([]byte, 1<<20)
	for range 64 {
		if _, err := c.Write(data); err != nil {
			return
		}
	}
	t.Error("64 MiB went into a black hole without resistance")
}

func TestMisuseOfAFaultPanics(t *testing.T) {
	t.Parallel()
	p := New(t, "127.0.0.1:1")
	for name, misuse := range map[string]func(){
		"direction": func() { p.BlackHole(0) },
		"delay":     func() { p.Delay(Both, -1) },
		"rate":      func() { p.Throttle(Both, -1) },
		"replies":   func() { p.SwallowReplies(-1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
}
