package cell_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cell"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// An overtaken engine is that of a machine far away: each of its writes arrives
// after one of somebody else, unless the others stand in line.
type overtaken struct {
	driver.Engine
	driver.Records
	times atomic.Int64
}

func (o *overtaken) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	for ctx.Err() == nil && !o.late(ctx, key, ifVersion) {
		time.Sleep(50 * time.Microsecond) // nothing tells of either
	}
	version, err := o.Records.Store(ctx, key, value, ifVersion, keep)
	if errors.Is(err, driver.ErrConflict) {
		o.times.Add(1)
	}
	return version, err
}

func (o *overtaken) late(ctx context.Context, key string, version uint64) bool {
	if _, now, err := o.Load(ctx, key); err != nil || now != version {
		return true
	}
	for e := range o.List(ctx, "") {
		if !e.Held {
			return true
		}
	}
	return false
}

func TestOneWhoIsSlowIsNotOvertakenForEver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mem := memlock.New()
	far := &overtaken{Engine: mem, Records: mem}
	quick, slow := pawl.New(mem), pawl.New(far)
	defer quick.Close()
	defer slow.Close()
	const updates = 5
	done := make(chan error, 1)
	go func() { // done tells of its end
		var err error
		for i := 0; i < updates && err == nil; i++ {
			_, err = cell.Update(ctx, slow, "n", add)
		}
		done <- err
	}()
	for others := 0; ; others++ {
		select {
		case err := <-done:
			if n, _, lerr := cell.Load[int](ctx, quick, "n"); err != nil || lerr != nil || n != others+updates {
				t.Errorf("%d and %d updates have come to %d: %v, %v", updates, others, n, err, lerr)
			}
			return
		default:
		}
		if n := far.times.Load(); n > updates*100 {
			t.Fatalf("one who is slow has lost %d times to one who is quick", n)
		}
		if _, err := cell.Update(ctx, quick, "n", add); err != nil {
			t.Fatal(err)
		}
	}
}

func add(n int) (int, error) { return n + 1, nil }

func TestAnUpdateThatIsAloneTakesNoLock(t *testing.T) {
	t.Parallel()
	mem := memlock.New()
	c := pawl.New(&unlocked{mem, mem, t})
	defer c.Close()
	for range 60 {
		if _, err := cell.Update(t.Context(), c, "n", add); err != nil {
			t.Fatal(err)
		}
	}
}

// An unlocked engine must not be asked for a lock.
type unlocked struct {
	driver.Engine
	driver.Records
	t *testing.T
}

func (u *unlocked) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	u.t.Error("a lock is asked for")
	return u.Engine.Open(ctx, o)
}
