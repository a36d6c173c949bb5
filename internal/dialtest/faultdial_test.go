package dialtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// linkFaults are the faults of a link, and whether nothing can be locked meanwhile.
var linkFaults = []struct {
	name   string
	begin  func(*faultdial.Link)
	silent bool
}{
	{"requests cut", func(l *faultdial.Link) { l.Cut(faultdial.Requests) }, true},
	{"replies cut", func(l *faultdial.Link) { l.Cut(faultdial.Replies) }, true},
	{"both cut", func(l *faultdial.Link) { l.Cut(faultdial.Both) }, true},
	{"delay", func(l *faultdial.Link) { l.Delay(20 * time.Millisecond) }, false},
	{"reply swallowed", (*faultdial.Link).SwallowReply, false},
	{"reset", (*faultdial.Link).Reset, false},
}

// The client library of each store copes with the connections of a link: it notices each
// fault, and works again when that has ended.
func TestEachStoreOutlivesEachFaultOfALink(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return
		}
		link := faultdial.New()
		t.Cleanup(link.Heal)
		c, err := pawl.Open(driver.WithDialer(t.Context(), link.Dial), s.URL, pawl.WithTTL(4*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		for _, f := range linkFaults {
			outlives(t, c, link, f.name, f.begin, f.silent)
		}
		if counts := link.Counts(); counts.Swallowed == 0 || counts.Lost == 0 || counts.Reset == 0 || counts.Dialled < 2 {
			t.Errorf("the link has done %+v", counts)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for start := time.Now(); link.Connections() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > time.Minute {
				t.Fatalf("%d connections after Close", link.Connections())
			}
		}
	})
}

func outlives(t *testing.T, c *pawl.Client, link *faultdial.Link, fault string, begin func(*faultdial.Link), silent bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	held, err := c.Mutex("held").Lock(ctx)
	if err != nil {
		t.Fatalf("before %s: %v", fault, err)
	}
	begin(link)
	during := ctx
	if silent {
		var stop context.CancelFunc
		during, stop = context.WithTimeout(ctx, 500*time.Millisecond)
		defer stop()
	}
	l, err := c.Mutex("during").Lock(during)
	if silent && err == nil || !silent && err != nil {
		t.Errorf("during %s: %v", fault, err)
	}
	if err == nil {
		giveBack(t, fault, l)
	}
	link.Heal()
	giveBack(t, fault, held)
	l, err = c.Mutex("after").Lock(ctx)
	if err != nil {
		t.Fatalf("after %s: %v", fault, err)
	}
	giveBack(t, fault, l)
}

// giveBack unlocks a lease that may be lost, as after some faults.
func giveBack(t *testing.T, fault string, l *pawl.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
		t.Errorf("%s: %v", fault, err)
	}
}
