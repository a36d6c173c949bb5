package sqllock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A claim that waits looks while the server is away for a moment. After it is back, and
// beats and looks have been answered, the wait ends: the lock was held, and nothing is
// wrong any more.
func TestAWaitThatEndsDoesNotBlameAServerThatIsBack(t *testing.T) {
	r := pushed(t)
	const ttl = 2 * time.Second // of the holder: so often is it looked for
	p, name := faultproxy.New(t, r.addr), nameOf(t)
	if _, err := openClient(t, r.url, pawl.WithTTL(ttl)).Mutex(name).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := openClient(t, r.via(p.Addr()), pawl.WithTTL(15*time.Second)).Mutex(name)
	ended := make(chan error, 1)
	go func() { // ends with ctx
		_, err := m.Lock(ctx)
		ended <- err
	}()
	for r.number(t, "SELECT count(*) FROM pawl_claim WHERE name LIKE ?", "%"+name) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(ttl / 2) // in which it begins to wait
	p.Refuse()
	p.Reset()
	time.Sleep(2 * ttl)
	p.Heal()
	time.Sleep(3 * ttl)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("the wait ended with %v", err)
	}
}

// Who is told in the end that the lock is held learns for how long it was held by then,
// not when it began to wait, although it has hardly looked since.
func TestAWaitThatEndsReportsForHowLongTheLockIsHeldByThen(t *testing.T) {
	r := pushed(t)
	const ttl, wait = 10 * time.Second, 3 * time.Second
	name := nameOf(t)
	if _, err := openClient(t, r.url, pawl.WithTTL(ttl)).Mutex(name).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := openClient(t, r.url, pawl.WithTTL(ttl)).Mutex(name, pawl.WithWait(wait)).Lock(t.Context())
	at, ok := errors.AsType[*pawl.HeldError](err)
	if !ok || at.Holder == nil {
		t.Fatalf("the wait ended with %v", err)
	}
	// What the answer spent on its way is not counted, so it may be a little less.
	if at.Holder.Since < wait/2 || at.Holder.Since > time.Since(began)+ttl {
		t.Errorf("after %v it is held for %v", time.Since(began), at.Holder.Since)
	}
	if at.Holder.Left <= 0 || at.Holder.Left > ttl {
		t.Errorf("it is held for %v more", at.Holder.Left)
	}
}
