package zklock

import (
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A Hook lets an engine observe a connection that the user makes; the client library
// offers that only at the time of connecting.
//
//	hook := zklock.NewHook()
//	conn, _, err := zk.Connect(servers, 15*time.Second, hook.Option)
//	engine, err := zklock.New(conn, hook)
//
// A hook is for one connection and one engine.
type Hook struct {
	Dial  zk.Dialer        // makes the TCP connections; nil: as the library does
	Event zk.EventCallback // is told of every event too; must not block; may be nil

	conn *zkstore.Conn
}

// NewHook returns a hook for a connection that is yet to be made.
func NewHook() *Hook {
	h := &Hook{}
	h.conn = zkstore.Hooked(h.dial, h.event)
	return h
}

func (h *Hook) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	if h.Dial != nil {
		return h.Dial(network, addr, timeout)
	}
	return net.DialTimeout(network, addr, timeout)
}

func (h *Hook) event(ev zk.Event) {
	if h.Event != nil {
		h.Event(ev)
	}
}

// Option is to be passed to zk.Connect, after any other dialer or event callback: those
// are given to the hook instead.
func (h *Hook) Option(c *zk.Conn) { h.conn.Option(c) }
