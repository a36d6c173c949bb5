package rueidis

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// dialSpin connects to a server that runs serve.
func dialSpin(t *testing.T, on *lastActive, serve func(net.Conn)) *spinConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted, served := make(chan struct{}), make(chan struct{})
	go func() { // ends with the connection
		defer close(served)
		c, err := l.Accept()
		close(accepted)
		if err == nil {
			defer c.Close()
			serve(c)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	<-accepted // a connection that was not accepted ends with the listener
	tcp := c.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	a := spinOn(tcp, raw, on)
	t.Cleanup(func() {
		a.Close()
		<-served
	})
	return a
}

// after echoes every request, in pieces, after a delay.
func after(d time.Duration, piece int) func(net.Conn) {
	return func(c net.Conn) {
		b := make([]byte, 1024)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			time.Sleep(d)
			for rest := b[:n]; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if _, err := c.Write(rest[:min(piece, len(rest))]); err != nil {
					return
				}
			}
		}
	}
}

// ask sends a request and reads its reply.
func (a *spinConn) ask(t *testing.T, words string) {
	t.Helper()
	if _, err := a.Write([]byte(words)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(words))
	if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, []byte(words)) {
		t.Fatalf("answered %q, %v to %q", got, err, words)
	}
}

func TestASpinningReaderReadsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]time.Duration{"near": 0, "far": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var on lastActive
			a := dialSpin(t, &on, after(d, 3))
			for range 200 {
				a.ask(t, "a request of some length")
			}
		})
	}
}

// Replies that never come in time are rarely spun for.
func TestTheReaderOfADistantServerSleeps(t *testing.T) {
	t.Parallel()
	var on lastActive
	late := make(chan bool, 1)       // whether the next reply has to wait
	looked := make(chan struct{}, 1) // for this
	a := dialSpin(t, &on, func(c net.Conn) {
		b := make([]byte, 4)
		for {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			if <-late {
				<-looked
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	watched := 0
	look := a.tryRead
	a.tryRead = func(fd uintptr) bool {
		look(fd)
		watched++
		looked <- struct{}{}
		return true
	}
	for range 10 * (1 + sleepsFor) {
		late <- a.trust >= 0
		a.ask(t, "ping")
	}
	if watched != 10 {
		t.Errorf("spun for %d replies of %d", watched, 10*(1+sleepsFor))
	}
}

// While another connection is in use the processor has other work to do.
func TestOneConnectionSpinsAtATime(t *testing.T) {
	t.Parallel()
	on := lastActive{long: time.Hour}
	a, other := dialSpin(t, &on, after(0, 100)), dialSpin(t, &on, after(0, 100))
	var since int64
	for range 50 {
		for _, c := range []*spinConn{a, other} {
			c.ask(t, "ping")
			if had := on.since.Load(); had <= since {
				t.Fatalf("active since %d, after %d", had, since)
			}
			since = on.since.Load()
			c.ask(t, "ping")
			if on.since.Load() != since {
				t.Fatal("the active connection became active again")
			}
		}
	}
	if a.trust != 0 || other.trust != 0 {
		t.Errorf("spun: trust %d, %d", a.trust, other.trust)
	}
	on.long = time.Millisecond
	for began := time.Now(); a.trust <= 0; {
		a.ask(t, "ping")
		if time.Since(began) > 10*time.Second {
			t.Fatal("never spins")
		}
	}
}

// On a shared connection a reader waits before a request is written.
func TestAReaderThatWasThereFirstGetsTheReply(t *testing.T) {
	t.Parallel()
	var on lastActive
	a := dialSpin(t, &on, after(0, 100))
	for range 50 {
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(a, make([]byte, 4))
			read <- err
		}()
		time.Sleep(time.Millisecond)
		if _, err := a.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if a.due.Load() {
			t.Fatal("a reply is due after the last")
		}
	}
}

func TestASpinningReadEnds(t *testing.T) {
	t.Parallel()
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	asked := func(t *testing.T, on *lastActive, serve func(net.Conn)) *spinConn {
		a := dialSpin(t, on, serve)
		if _, err := a.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		end   func(a *spinConn)
		want  error
	}{
		{"by the deadline", silent, func(a *spinConn) { _ = a.SetDeadline(time.Now().Add(20 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		{"by a deadline that has passed", silent, func(a *spinConn) { _ = a.SetDeadline(time.Now().Add(-time.Second)) }, os.ErrDeadlineExceeded},
		{"by Close", silent, func(a *spinConn) { time.AfterFunc(20*time.Millisecond, func() { a.Close() }) }, net.ErrClosed},
		{"when it was closed", silent, func(a *spinConn) { a.Close() }, net.ErrClosed},
		{"with the server", func(c net.Conn) { _, _ = c.Read(make([]byte, 4)) }, func(*spinConn) {}, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on lastActive
			a := asked(t, &on, c.serve)
			c.end(a)
			began := time.Now()
			n, err := a.Read(make([]byte, 10))
			if n != 0 || !errors.Is(err, c.want) {
				t.Errorf("read %d bytes, %v; want %v", n, err, c.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("came back after %v", took)
			}
		})
	}
}
