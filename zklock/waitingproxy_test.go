package zklock

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// waitingProxy returns an address that leads to addr, also for connections made before
// there is a listener. A node listens for followers only while it leads. One
// that finds the port closed tries again; behind a proxy it finds it open, and
// then at its end, and takes that for the end of its leader. What it says first is
// passed on as translate makes it.
func waitingProxy(t testing.TB, addr string, translate func(hello []byte) []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		work sync.WaitGroup
		mu   sync.Mutex // guards conns
		all  []net.Conn
		over = make(chan struct{}) // closed when the test ends
	)
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
	}
	serve := func(client net.Conn) {
		defer client.Close()
		server := reach(addr, over)
		if server == nil {
			return
		}
		defer server.Close()
		keep(server)
		hello := make([]byte, 4096)
		n, err := client.Read(hello)
		if err == nil {
			_, err = server.Write(translate(hello[:n]))
		}
		if err != nil {
			return
		}
		var ways sync.WaitGroup
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			ways.Go(func() {
				io.Copy(way[0], way[1])
				way[0].Close()
				way[1].Close()
			})
		}
		ways.Wait()
	}
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			keep(client)
			work.Go(func() { serve(client) })
		}
	})
	t.Cleanup(func() {
		close(over)
		listener.Close()
		mu.Lock()
		for _, c := range all {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return listener.Addr().String()
}

// reach dials until there is a listener, for as long as a follower tries.
func reach(addr string, over <-chan struct{}) net.Conn {
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return conn
		}
		select {
		case <-time.After(10 * time.Millisecond): // nothing tells when there is a listener
		case <-over:
			return nil
		}
	}
	return nil
}
