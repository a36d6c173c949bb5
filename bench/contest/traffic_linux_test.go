package contest

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
	// What was sent counts when it was acknowledged, and the answer carries that; the
	// connection itself counts for one more byte.
	if n, known := traffic(one); !known || n < 2000 || n > 2002 {
		t.Errorf("%d bytes, %v; want 2000", n, known)
	}
	if n, _ := traffic(one, other); n < 12_000 || n > 12_004 {
		t.Errorf("%d bytes to both; want 12000", n)
	}
}
