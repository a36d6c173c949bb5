package faultproxy

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestDelayIsPerDirectionAndKeepsOrder(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	for _, test := range []struct {
		dir  Direction
		want time.Duration
	}{{ToServer, delay}, {ToClient, delay}, {Both, 2 * delay}} {
		t.Run(test.dir.String(), func(t *testing.T) {
			t.Parallel()
			p := New(t, conntest.NewLineServer(t).Addr)
			p.Delay(test.dir, delay)
			c := dial(t, p)
			start := time.Now()
			c.send("a")
			c.send("b")
			c.expect("a!")
			if took := time.Since(start); took < test.want {
				t.Errorf("took %v, want at least %v", took, test.want)
			}
			c.expect("b!")
		})
	}
}

// Fifty chunks that were delayed one after the other would take 50 delays.
func TestDelayedChunksTravelSideBySide(t *testing.T) {
	t.Parallel()
	const delay, lines = 100 * time.Millisecond, 50
	p := New(t, conntest.NewLineServer(t).Addr)
	arrived := chunksAt(p, ToServer, Arrived)
	p.Delay(ToServer, delay)
	c := dial(t, p)
	start := time.Now()
	for range lines {
		c.send("a")
		conntest.Receive(t, arrived) // a separate chunk for each
	}
	for range lines {
		c.expect("a!")
	}
	if took := time.Since(start); took < delay || took > lines*delay/4 {
		t.Errorf("took %v with a delay of %v", took, delay)
	}
}

func TestHealSendsDelayedBytesAtOnce(t *testing.T) {
	t.Parallel()
	p := New(t, conntest.NewLineServer(t).Addr)
	arrived := chunksAt(p, ToServer, Arrived)
	p.Delay(ToServer, time.Hour)
	c := dial(t, p)
	c.send("a")
	conntest.Receive(t, arrived)
	p.Heal()
	c.expect("a!")
}

func TestThrottleLimitsTheRate(t *testing.T) {
	t.Parallel()
	const rate, size = 100_000, 40_000
	p := New(t, newEcho(t))
	p.Throttle(ToClient, rate)
	c := dial(t, p)
	data := bytes.Repeat([]byte("0123456789"), size/10)
	start := time.Now()
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	// The first twentieth of a second's worth passes at once.
	want := time.Second*size/rate - time.Second/20
	if took := time.Since(start); took < want {
		t.Errorf("%d bytes took %v, want at least %v", size, took, want)
	}
	if !bytes.Equal(got, data) {
		t.Error("the bytes changed")
	}
}

func TestHealEndsAThrottleInTheMiddleOfAChunk(t *testing.T) {
	t.Parallel()
	p := New(t, newEcho(t))
	p.Throttle(ToServer, 1) // all of it would take hours
	c := dial(t, p)
	data := bytes.Repeat([]byte("x"), 10_000)
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	if _, err := io.ReadFull(c, make([]byte, len(data)-1)); err != nil {
		t.Fatal(err)
	}
}
