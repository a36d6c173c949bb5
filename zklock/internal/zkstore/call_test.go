package zkstore

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// The library keeps what it could not send, and sends it when there is a connection again,
// also in another ZooKeeper session.
func TestAWriteOfAnEndedSessionIsNotSentInTheNext(t *testing.T) {
	t.Parallel()
	tcp, _ := handshaken(t)
	c := tcp.o.(*transport).c
	old := c.session
	answer := make(chan struct{})
	answered := make(chan error, 1)
	if !c.start(old, "/name/p.x.1234", func(*zk.Conn) error { <-answer; return zk.ErrConnectionClosed }, func(err error) { answered <- err }) {
		t.Fatal("not begun")
	}
	create := binary.BigEndian.AppendUint32(frameOf(3, opMulti)[4:], 0)
	create = append(binary.BigEndian.AppendUint32(nil, uint32(len(create)+20)), append(create, "/name/p.x.1234 and more"...)...)
	if _, err := tcp.Write(create); err != nil {
		t.Errorf("in its own session: %v", err)
	}
	c.mu.Lock()
	c.handshakeLocked(8, old.Timeout, driverkit.Now())
	c.mu.Unlock()
	if _, err := tcp.Write(create); !errors.Is(err, errStale) {
		t.Errorf("in the next session: %v", err)
	}
	if _, err := tcp.Write(frameOf(4, opMulti, 0)); err != nil {
		t.Errorf("another write: %v", err)
	}
	if c.start(old, "", func(*zk.Conn) error { return nil }, func(error) {}) {
		t.Error("a call is begun for a session that has ended")
	}
	close(answer)
	if err := <-answered; !errors.Is(err, driver.ErrGone) {
		t.Errorf("told of %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessionWrites)+len(c.staleWrites) > 0 {
		t.Errorf("still guarded: %v, %v", c.sessionWrites, c.staleWrites)
	}
}

func TestAWatchThatFailsIsOneLess(t *testing.T) {
	t.Parallel()
	s := newWatchSet()
	key := WatchKey{"/name", OnChildren}
	for _, n := range []int{1, 1, -1} { // set, then again on a connection that ends
		s.count(key, n)
	}
	if s.inLibrary[key] != 1 {
		t.Error("the first is forgotten")
	}
}
