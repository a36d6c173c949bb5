package zkstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/internal/testserver"
)

// Between the end of a TCP connection and the library's event about it there is no connection,
// and yet the library dials through the hook.
func TestAConnectionThatHasJustEndedIsNotTakenForABypass(t *testing.T) {
	t.Parallel()
	c := Hooked(nil, nil)
	lc, _, err := zk.Connect([]string{testserver.ZooKeeper(t).Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(discard{}), c.Option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lc.Close)
	if _, _, err := lc.Exists("/"); err != nil { // it has a session
		t.Fatal(err)
	}
	c.mu.Lock()
	tcp := c.transport.tcp
	c.transport, c.connected = nil, false
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.CheckHooked(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a connection: %v", err)
	}
	tcp.Close()
	if err := c.CheckHooked(t.Context()); err != nil {
		t.Error(err)
	}
}
