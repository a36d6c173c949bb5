package zkstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// MaxRequest is the largest request, and reply: a record with room to spare. The library
// allocates its default of a megabyte and a half at once, and servers take one at most.
const MaxRequest = 512 << 10

// Connect begins to connect to servers, each host:port; Ready waits for it. A connection of
// a single session does not reconnect once that has ended. A nil dial is TCP.
func Connect(servers []string, timeout time.Duration, singleSession bool, dial Dialer) (*Conn, error) {
	c := newConn(dial, len(servers))
	c.singleSession, c.requested = singleSession, timeout
	var err error
	_, c.events, err = zk.Connect(servers, timeout, c.Option,
		zk.WithHostProvider(&hosts{}), zk.WithLogger(discard{}), zk.WithLogInfo(false), zk.WithMaxConnBufferSize(MaxRequest))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// discard keeps the library from writing to the program's log.
type discard struct{}

func (discard) Printf(string, ...any) {}

// Hooked returns a connection that the user makes with Option, and closes. callback is told
// of every event too; it must not block, and may be nil.
func Hooked(dial zk.Dialer, callback func(zk.Event)) *Conn {
	c := newConn(WithoutContext(dial), maxServers)
	c.callback = callback
	return c
}

// maxServers is how many failed TCP connections in a row count as all servers, where their
// number is not known.
const maxServers = 3

// IsOf reports whether Option was applied to lc.
func (c *Conn) IsOf(lc *zk.Conn) bool { return c.library == lc }

// CheckHooked waits as Ready does, and returns an error where a connection of the user's
// does not dial through Option's dialer.
func (c *Conn) CheckHooked(ctx context.Context) error {
	c.mu.Lock()
	bypassed := !c.dialed && c.library.State() == zk.StateHasSession
	c.mu.Unlock()
	if bypassed {
		return errors.New("zklock: the connection has another dialer than its hook's: pass the hook's option last")
	}
	return c.Ready(ctx)
}
