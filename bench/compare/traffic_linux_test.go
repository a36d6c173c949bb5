package compare

import (
	"io"
	"net"
	"testing"
)

func TestTrafficCountsBothWaysToTheServerAlone(t *testing.T) {
	t.Parallel()
	echo := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { // ends with the connection
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
		return l.Addr().String()
	}
	one, other := echo(), echo()
	say := func(addr string, n int) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	say(one, 1000)
	say(other, 5000)
	// Sent bytes count once they are acknowledged, which the answer does; the
	// connection itself counts for one more byte.
	if n := growth(nil, traffic(one)); n < 2000 || n > 2002 {
		t.Errorf("%d bytes; want 2000", n)
	}
	if n := growth(nil, traffic(one, other)); n < 12_000 || n > 12_004 {
		t.Errorf("%d bytes to both; want 12000", n)
	}
}

func TestAConnectionThatEndsTakesNothingBack(t *testing.T) {
	t.Parallel()
	before := map[int]int{1: 1000, 2: 500, 3: 70}
	after := map[int]int{2: 600, 3: 20, 4: 5} // 1 has ended, port 3 was reused
	if got := growth(before, after); got != 100+20+5 {
		t.Errorf("%d bytes, want 125", got)
	}
}
