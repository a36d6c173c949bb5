package zklock

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// The order of events: the first Close is waiting for the answer to its last request when
// the second is called.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	const opClose = -11
	p := newPauser(1, opClose)
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)), WithDialer(p.dial))
	begin := func() <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := e.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		return done
	}
	first := begin()
	<-p.stopped
	second := begin()
	select {
	case <-second:
		t.Error("the second Close has returned and the connection is not closed")
	case <-time.After(100 * time.Millisecond): // long enough for a wrong one, no reason to fail when slow
	}
	close(p.goOn)
	<-first
	<-second
}

// There is no engine whose Close could end what a failed Connect has begun.
func TestAConnectThatFailsLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32 // under way
	dial := func(string, string, time.Duration) (net.Conn, error) {
		dials.Add(1)
		defer dials.Add(-1)
		time.Sleep(500 * time.Millisecond)
		return nil, errors.New("no connection")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, []string{"server:2181"}, WithDialer(dial)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect: %v", err)
	}
	if n := dials.Load(); n > 0 {
		t.Errorf("%d dials are under way", n)
	}
}
