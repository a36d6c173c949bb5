package faultdial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestNothingIsChangedWithoutAFault(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	for range 100 {
		c.send("a")
		c.expect("a!")
	}
	if c.Conn.(*conn).queued.Load() {
		t.Error("bytes take a queue")
	}
	if err := c.Conn.(*conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := conntest.Receive(t, s.Ends); err != io.EOF {
		t.Errorf("the server saw %v instead of an orderly end", err)
	}
	if b, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("read %q, %v instead of an orderly end", b, err)
	}
	if n := l.Connections(); n != 1 {
		t.Errorf("%d connections, not 1", n)
	}
	c.Close()
	if n := l.Connections(); n != 0 {
		t.Errorf("%d connections, not 0", n)
	}
	if got, want := l.Counts(), (Counts{Dialled: 1}); got != want {
		t.Errorf("counted %+v, not %+v", got, want)
	}
}

func TestACutOfRequestsIsSilentAndLosesThem(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	idle, c := dial(t, l, s.Addr), dial(t, l, s.Addr)
	c.send("a")
	c.expect("a!")
	conntest.Receive(t, s.Lines)
	l.Cut(Requests)
	c.send("b")
	c.expectSilence()
	conntest.ExpectNothing(t, s.Lines)
	l.Heal()
	c.expectReset()
	if err := conntest.Receive(t, s.Ends); err == io.EOF {
		t.Error("the server saw an orderly end instead of a reset")
	}
	conntest.ExpectNothing(t, s.Lines) // also not late
	idle.send("c")                     // it has lost nothing
	idle.expect("c!")
	if got, want := l.Counts(), (Counts{Dialled: 2, Lost: 1, Reset: 1}); got != want {
		t.Errorf("counted %+v, not %+v", got, want)
	}
}

func TestACutOfRepliesLetsRequestsThrough(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Cut(Replies)
	c.send("a")
	if line := conntest.Receive(t, s.Lines); line != "a" {
		t.Fatalf("the server read %q", line)
	}
	c.expectSilence()
	l.Heal()
	c.expectReset()
}

// A Read that has begun before the cut is on the direct way, in a call of the kernel.
func TestACutReachesAReadThatHasBegun(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	inner := c.Conn.(*conn)
	got := make(chan error, 1)
	go func() { // ends with the reset
		_, err := inner.Read(make([]byte, 10))
		got <- err
	}()
	until(t, "reading", func() bool { return inner.reads.Load() == 1 })
	l.Cut(Replies)
	c.send("a")
	conntest.Receive(t, s.Lines)
	conntest.ExpectNothing(t, got)
	l.Heal()
	if err := conntest.Receive(t, got); !isReset(err) {
		t.Errorf("%v, not a reset", err)
	}
}

func TestACutWithoutTrafficLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Cut(Both)
	l.Heal()
	c.send("a")
	c.expect("a!")
	c.direct()
	c.send("b")
	c.expect("b!")
}

func TestNewConnectionsWaitForTheEndOfACut(t *testing.T) {
	t.Parallel()
	for _, d := range []Direction{Requests, Replies, Both} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			s, l := conntest.NewLineServer(t), New()
			l.Cut(d)
			short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			var timeout net.Error
			if _, err := l.Dial(short, "tcp", s.Addr); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("%v, not a timeout", err)
			}
			done := background(t.Context(), l, s.Addr)
			until(t, "waiting", func() bool { return l.Counts().Held == 2 })
			conntest.ExpectNothing(t, s.Calls)
			l.Heal()
			if err := conntest.Receive(t, done); err != nil {
				t.Error(err)
			}
			conntest.Receive(t, s.Calls)
		})
	}
}

func TestTheServerLearnsOfACloseAfterTheCut(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c, busy := dial(t, l, s.Addr), dial(t, l, s.Addr)
	l.Cut(Requests)
	busy.send("a")
	c.Close()
	busy.Close()
	if n := l.Connections(); n != 0 {
		t.Errorf("%d connections after Close", n)
	}
	until(t, "without goroutines", func() bool { i := c.Conn.(*conn); i.mu.Lock(); defer i.mu.Unlock(); return !i.sending && !i.receiving })
	conntest.ExpectNothing(t, s.Ends)
	l.Heal()
	ends := []bool{conntest.Receive(t, s.Ends) == io.EOF, conntest.Receive(t, s.Ends) == io.EOF}
	if ends[0] == ends[1] {
		t.Errorf("orderly ends: %v, and only one connection lost bytes", ends)
	}
	if len(l.all()) != 0 {
		t.Error("the link still knows connections that have ended")
	}
	conntest.ExpectNothing(t, s.Lines)
}

func TestTheEndOfTheServerIsHiddenInACut(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := New()
	c := dial(t, l, listener.Addr().String())
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Cut(Replies)
	far.Close()
	c.expectSilence()
	l.Heal()
	c.SetReadDeadline(time.Now().Add(conntest.Timeout))
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("%v, not the end", err)
	}
}

func TestDelayIsForEachDirectionAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const delay, lines = 100 * time.Millisecond, 50
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Delay(delay)
	start := time.Now()
	for i := range lines {
		c.send(fmt.Sprint(i))
	}
	for i := range lines {
		c.expect(fmt.Sprint(i) + "!")
	}
	// One after the other, they would take 2*lines*delay.
	if took := time.Since(start); took < 2*delay || took > lines*delay/2 {
		t.Errorf("took %v with a delay of %v", took, delay)
	}
	l.Delay(0)
	c.direct()
	c.send("b")
	c.expect("b!")
	l.Delay(delay)
	start = time.Now()
	dial(t, l, s.Addr)
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a connection was made in %v", took)
	}
}

func TestRepliesThatWaitUnreadAreDelayedOnce(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Delay(delay)
	c.send("a")
	conntest.Receive(t, s.Lines)
	inner := c.Conn.(*conn)
	until(t, "arrived", func() bool { inner.mu.Lock(); defer inner.mu.Unlock(); return !inner.in.empty() })
	inner.mu.Lock()
	due := inner.in.items[0].at.Add(delay)
	inner.mu.Unlock()
	time.Sleep(time.Until(due)) // nobody reads meanwhile
	c.SetReadDeadline(time.Now().Add(delay / 2))
	if got, err := c.r.ReadString('\n'); got != "a!\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestHealDeliversWhatWasDelayed(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Delay(time.Hour)
	c.send("a")
	conntest.ExpectNothing(t, s.Lines)
	l.Heal()
	c.expect("a!")
}

func TestACutLosesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Delay(time.Hour)
	c.send("a")
	l.Cut(Requests)
	l.Heal()
	c.expectReset()
	conntest.ExpectNothing(t, s.Lines)
}

func TestADelayedRequestArrivesAlthoughItsSenderHasClosed(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.Delay(50 * time.Millisecond)
	c.send("a")
	c.Close()
	conntest.ExpectNothing(t, s.Lines)
	if line := conntest.Receive(t, s.Lines); line != "a" {
		t.Errorf("the server read %q", line)
	}
	conntest.Receive(t, s.Ends)
	until(t, "forgotten", func() bool { return len(l.all()) == 0 })
}

func TestASwallowedReplyWasAskedForAndTheConnectionIsReset(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c, unused := dial(t, l, s.Addr), dial(t, l, s.Addr)
	c.send("a")
	c.expect("a!")
	conntest.Receive(t, s.Lines)
	l.SwallowReply()
	later := dial(t, l, s.Addr)
	c.send("b")
	if line := conntest.Receive(t, s.Lines); line != "b" {
		t.Fatalf("the server read %q", line)
	}
	c.expectReset()
	later.send("c") // it was made afterwards
	later.expect("c!")
	l.Heal()
	unused.send("d")
	unused.expect("d!")
	if got, want := l.Counts(), (Counts{Dialled: 3, Swallowed: 1, Reset: 1}); got != want {
		t.Errorf("counted %+v, not %+v", got, want)
	}
}

func TestARequestWithoutAReplyIsResetToo(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	c := dial(t, l, s.Addr)
	l.SwallowReply()
	if _, err := io.WriteString(c, "no end of line"); err != nil {
		t.Fatal(err)
	}
	c.expectReset()
	if n := l.Counts().Swallowed; n != 0 {
		t.Errorf("%d replies swallowed, and there was none", n)
	}
}

func TestResetEndsPresentConnectionsOnly(t *testing.T) {
	t.Parallel()
	s, l := conntest.NewLineServer(t), New()
	a, b := dial(t, l, s.Addr), dial(t, l, s.Addr)
	b.send("b")
	b.expect("b!")
	reading := make(chan error, 1)
	go func() { // ends with the reset
		_, err := a.Read(make([]byte, 1))
		reading <- err
	}()
	until(t, "reading", func() bool { return a.Conn.(*conn).reads.Load() == 1 })
	l.Reset()
	if err := conntest.Receive(t, reading); !isReset(err) {
		t.Errorf("%v, not a reset", err)
	}
	b.expectReset()
	if _, err := b.Write([]byte("x")); !isReset(err) {
		t.Errorf("%v, not a reset", err)
	}
	for range 2 {
		if err := conntest.Receive(t, s.Ends); err == io.EOF {
			t.Error("the server saw an orderly end instead of a reset")
		}
	}
	c := dial(t, l, s.Addr)
	c.send("c")
	c.expect("c!")
}

func TestAUnixSocketHasTheSameFaults(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := New()
	near, err := l.Dial(t.Context(), "unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	l.Cut(Replies)
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	near.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := near.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	near.SetReadDeadline(time.Time{})
	l.Heal()
	if _, err := near.Read(make([]byte, 1)); !isReset(err) {
		t.Errorf("%v, not a reset", err)
	}
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(){
		"no direction":   func() { New().Cut(0) },
		"direction":      func() { New().Cut(4) },
		"negative delay": func() { New().Delay(-1) },
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
