package zklock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A server ends the connection of who sends more than it reads.
func TestARequestThatIsTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, []string{one(t)}, Path(pathOf(t))), time.Minute)
	cs := make([]driver.Claim, 1000)
	for i := range cs {
		cs[i] = mutex()
		cs[i].Name, cs[i].Note = fmt.Sprint("job", i), strings.Repeat("n", driver.MaxNote)
	}
	s.l.mu.Lock()
	tap := s.l.tap
	s.l.mu.Unlock()
	if _, err := s.EnterAll(t.Context(), cs); err == nil || unknown(err) {
		t.Errorf("entering a thousand claims: %v", err)
	}
	hold(t, s, mutex())
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.tap != tap {
		t.Error("it has cost the connection")
	}
}

func TestAWatchThatFailsIsOneLess(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	key := watchKey{"/name", onChildren}
	for _, n := range []int{1, 1, -1} { // set, then again on a connection that ends
		tap.l.keep(key, n)
	}
	tap.l.mu.Lock()
	defer tap.l.mu.Unlock()
	if tap.l.kept[key] != 1 {
		t.Error("the first is forgotten")
	}
}

// On a further connection the library says first who we are.
func TestNoRequestOvertakesThePassword(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{one(t)}, Path(pathOf(t)), Digest("ana", "right"), CreatorOnly())
	s := open(t, e, time.Minute)
	for range 30 {
		c := mutex()
		s.l.cut()
		if err := persist(func() error {
			_, err := s.Enter(t.Context(), c)
			if errors.Is(err, driver.ErrDenied) {
				t.Fatalf("after the connection was made anew: %v", err)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		leave(t, s, c)
	}
}

// The library keeps what it could not send, and sends it when there is a connection again,
// also in another ZooKeeper session.
func TestAWriteOfAnEndedLifeIsNotSentInTheNext(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	l := tap.l
	old := l.life
	answer := make(chan struct{})
	answered := make(chan error, 1)
	if !l.start(old, "/name/p.x.1234", func(*zk.Conn) error { <-answer; return zk.ErrConnectionClosed }, func(err error) { answered <- err }) {
		t.Fatal("not begun")
	}
	create := binary.BigEndian.AppendUint32(frameOf(3, opMulti)[4:], 0)
	create = append(binary.BigEndian.AppendUint32(nil, uint32(len(create)+20)), append(create, "/name/p.x.1234 and more"...)...)
	if _, err := tap.Write(create); err != nil {
		t.Errorf("in its own life: %v", err)
	}
	l.mu.Lock()
	l.greetedLocked(tap, 8, old.timeout)
	l.mu.Unlock()
	if _, err := tap.Write(create); !errors.Is(err, errLate) {
		t.Errorf("in the next life: %v", err)
	}
	if _, err := tap.Write(frameOf(4, opMulti, 0)); err != nil {
		t.Errorf("another write: %v", err)
	}
	if l.start(old, "", func(*zk.Conn) error { return nil }, func(error) {}) {
		t.Error("a call is begun for a life that has ended")
	}
	close(answer)
	if err := <-answered; !errors.Is(err, driver.ErrGone) {
		t.Errorf("told of %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.guards)+len(l.late) > 0 {
		t.Errorf("still guarded: %v, %v", l.guards, l.late)
	}
}
