package zklock

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A server ends a connection that sends a request larger than it accepts.
func TestARequestThatIsTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		dials.Add(1)
		return net.DialTimeout(network, addr, timeout)
	}
	s := open(t, connect(t, []string{oneServer(t)}, WithPath(pathOf(t)), WithDialer(dial)), time.Minute)
	cs := make([]driver.Claim, 1000)
	for i := range cs {
		cs[i] = mutex()
		cs[i].Name, cs[i].Note = fmt.Sprint("job", i), strings.Repeat("n", driver.MaxNote)
	}
	before := dials.Load()
	if _, err := s.EnterAll(t.Context(), cs); err == nil || zkstore.OutcomeUnknown(err) {
		t.Errorf("entering a thousand claims: %v", err)
	}
	hold(t, s, mutex())
	if dials.Load() != before {
		t.Error("it has cost the connection")
	}
}

// On a further connection the library authenticates first.
func TestNoRequestOvertakesThePassword(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)), WithDigest("ana", "right"), WithCreatorOnly())
	s := open(t, e, time.Minute)
	for range 30 {
		c := mutex()
		s.conn.Reconnect()
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
