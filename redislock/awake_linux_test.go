package redislock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// dialAwake connects to a server that is serve.
func dialAwake(t *testing.T, on *floor, serve func(net.Conn)) *awake {
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
	<-accepted // a connection that nobody has taken ends with the listener
	tcp := c.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	a := newAwake(tcp, raw, on)
	t.Cleanup(func() {
		a.Close()
		<-served
	})
	return a
}

// after answers every request with itself, in pieces, when it has waited.
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

// ask sends a request and reads its answer.
func (a *awake) ask(t *testing.T, words string) {
	t.Helper()
	if _, err := a.Write([]byte(words)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(words))
	if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, []byte(words)) {
		t.Fatalf("answered %q, %v to %q", got, err, words)
	}
}

func TestAwakeReadsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]time.Duration{"near": 0, "far": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var on floor
			a := dialAwake(t, &on, after(d, 3))
			for range 200 {
				a.ask(t, "a request of some length")
			}
		})
	}
}

// A server whose answers never come in time is hardly stayed awake for.
func TestAwakeForAFarServerSleeps(t *testing.T) {
	t.Parallel()
	var on floor
	late := make(chan bool, 1)       // whether the next answer has to wait
	looked := make(chan struct{}, 1) // for this
	a := dialAwake(t, &on, func(c net.Conn) {
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
	look := a.look
	a.look = func(fd uintptr) bool {
		look(fd)
		watched++
		looked <- struct{}{}
		return true
	}
	for range 10 * (1 + asleep) {
		late <- a.trust >= 0
		a.ask(t, "ping")
	}
	if watched != 10 {
		t.Errorf("stayed awake for %d answers of %d", watched, 10*(1+asleep))
	}
}

// While another connection is in use the processor has other work.
func TestAwakeForOneConnectionAtATime(t *testing.T) {
	t.Parallel()
	on := floor{long: time.Hour}
	a, other := dialAwake(t, &on, after(0, 100)), dialAwake(t, &on, after(0, 100))
	var since int64
	for range 50 {
		for _, c := range []*awake{a, other} {
			c.ask(t, "ping")
			if had := on.since.Load(); had <= since {
				t.Fatalf("the floor is had since %d, after %d", had, since)
			}
			since = on.since.Load()
			c.ask(t, "ping")
			if on.since.Load() != since {
				t.Fatal("the floor was taken by who has it")
			}
		}
	}
	if a.trust != 0 || other.trust != 0 {
		t.Errorf("stayed awake: trust %d, %d", a.trust, other.trust)
	}
	on.long = time.Millisecond
	for begun := time.Now(); a.trust <= 0; {
		a.ask(t, "ping")
		if time.Since(begun) > 10*time.Second {
			t.Fatal("never stays awake")
		}
	}
}

// A reader that waits before anything is asked, as on a connection that many share,
// takes the answer as well.
func TestAwakeReaderThatWasThereFirst(t *testing.T) {
	t.Parallel()
	var on floor
	a := dialAwake(t, &on, after(0, 100))
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
		if a.asked.Load() {
			t.Fatal("an answer is due behind the last")
		}
	}
}

func TestAwakeEnds(t *testing.T) {
	t.Parallel()
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	asked := func(t *testing.T, on *floor, serve func(net.Conn)) *awake {
		a := dialAwake(t, on, serve)
		if _, err := a.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		end   func(a *awake)
		want  error
	}{
		{"by the deadline", silent, func(a *awake) { _ = a.SetDeadline(time.Now().Add(20 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		{"by a deadline that has passed", silent, func(a *awake) { _ = a.SetDeadline(time.Now().Add(-time.Second)) }, os.ErrDeadlineExceeded},
		{"by Close", silent, func(a *awake) { time.AfterFunc(20*time.Millisecond, func() { a.Close() }) }, net.ErrClosed},
		{"when it was closed", silent, func(a *awake) { a.Close() }, net.ErrClosed},
		{"with the server", func(c net.Conn) { _, _ = c.Read(make([]byte, 4)) }, func(*awake) {}, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on floor
			a := asked(t, &on, c.serve)
			c.end(a)
			begun := time.Now()
			n, err := a.Read(make([]byte, 10))
			if n != 0 || !errors.Is(err, c.want) {
				t.Errorf("read %d bytes, %v; want %v", n, err, c.want)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("came back after %v", took)
			}
		})
	}
}
