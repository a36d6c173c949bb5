package natslock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// A write takes a round trip between the members, a read none. A client gives a Lock up
// while its write is under way, and ends: its Leave reads the line before that write is in
// it.
func TestALockThatWasGivenUpIsFreeWhenItsClientHasClosed(t *testing.T) {
	t.Parallel()
	c, network := cluster(t)
	const ttl, delay = time.Minute, 500 * time.Millisecond
	rival := clusterClient(t, ttl, c.Addrs()...)
	leader := c.Leader(testStream)
	blocked := 0
	const rounds = 4
	for i := range rounds {
		client := answeredClient(t, ttl, newEngine(storeOn(t, c, leader)))
		network.Delay(leader, delay)
		ctx, cancel := context.WithTimeout(t.Context(), delay/4)
		name := fmt.Sprint("given up ", i)
		if _, err := client.Mutex(name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock: %v", err)
		}
		cancel()
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		network.Delay(leader, 0)
		lockOnce(t, rival) // now all that was sent before is in the bucket
		l, err := rival.Mutex(name).TryLock(t.Context())
		if err != nil {
			t.Log(err)
			blocked++
			continue
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if blocked > 0 {
		t.Errorf("%d of %d names are blocked by clients that have ended", blocked, rounds)
	}
}
