package zklock

import (
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Hook is what an engine needs to see of a connection that the user makes: the
// client library lets nobody in after it has connected.
//
//	hook := zklock.Hooks()
//	conn, _, err := zk.Connect(servers, 15*time.Second, hook.Option)
//	engine, err := zklock.New(conn, hook)
//
// One hook is for one connection and one engine.
type Hook struct {
	Dial  zk.Dialer        // makes the TCP connections; nil: as the library does
	Event zk.EventCallback // told of every event too; must not block; may be nil

	l *link
}

// Hooks returns a hook for a connection that is yet to be made.
func Hooks() *Hook {
	h := &Hook{}
	h.l = newLink(h.dial, maxServers)
	return h
}

// maxServers is how many failed connections in a row are taken for all servers,
// where their number is the user's business.
const maxServers = 3

func (h *Hook) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	if h.Dial != nil {
		return h.Dial(network, addr, timeout)
	}
	return net.DialTimeout(network, addr, timeout)
}

// Option is to be passed to zk.Connect, after any other dialer or event callback:
// those are given to the hook instead.
func (h *Hook) Option(c *zk.Conn) {
	h.l.tell = h.Event
	h.l.option(c)
}
