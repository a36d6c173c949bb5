package otelpawl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// silentEngine answers nothing.
type silentEngine struct{ driver.Engine }

func (silentEngine) Open(ctx context.Context, _ driver.SessionOptions) (driver.Session, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Whatever a store that does not answer makes of a call, it is not the answer that the lock is held.
func TestASilentStoreIsAFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refused []pawl.Event
		c := pawl.New(silentEngine{memlock.New()}, pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) { refused = append(refused, e) })))
		for _, wait := range []time.Duration{time.Millisecond, 5 * time.Second} {
			_, _ = c.Mutex("a", pawl.WithWait(wait)).Lock(t.Context())
			_, _ = c.LockAll(t.Context(), []string{"a", "b"}, pawl.WithWait(wait))
		}
		_, _ = c.Mutex("a").TryLock(t.Context())
		for _, e := range refused {
			if e.Kind != pawl.Refused || answered(e) {
				t.Errorf("%v: %v is taken for an answer", e.Kind, e.Err)
			}
		}
		if len(refused) != 5 {
			t.Errorf("%d events, want 5", len(refused))
		}
		_ = c.Close()
	})
}
