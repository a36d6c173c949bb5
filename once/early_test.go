package once_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
)

// A hooked engine calls before each Store.
type hooked struct {
	driver.Engine
	driver.Records
	before func(stores int)
	stores int
}

func (h *hooked) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	h.stores++
	h.before(h.stores)
	return h.Records.Store(ctx, key, value, ifVersion, keep)
}

type losses chan struct{}

func (l losses) Observe(e pawl.Event) {
	if e.Kind == pawl.Lost {
		l <- struct{}{}
	}
}

// The lease is lost after the record says that the work runs, and before it does:
// nothing has happened, so it is no crash, and not the caller's concern.
func TestALeaseThatIsLostBeforeTheWorkBeganIsTakenAgain(t *testing.T) {
	t.Parallel()
	mem := memlock.New()
	lost := make(losses, 10)
	h := &hooked{Engine: mem, Records: mem}
	c := pawl.New(h, pawl.WithTTL(2*time.Second), pawl.WithObserver(lost))
	defer c.Close()
	h.before = func(stores int) {
		if stores == 1 {
			breakLock(t, c)
			<-lost
		}
	}
	runs := 0
	v, err := once.Do(t.Context(), c, "k", func(context.Context) (int, error) { runs++; return 5, nil }, once.WithHold())
	if v != 5 || err != nil || runs != 1 {
		t.Errorf("%d, %v, after %d runs", v, err, runs)
	}
}

// Close ends the lease's context, under which the first record is written: the caller's
// own context has not ended, and the error must not say so alone.
func TestCloseBeforeTheWorkBeganIsErrClosed(t *testing.T) {
	t.Parallel()
	mem := memlock.New()
	h := &hooked{Engine: mem, Records: mem}
	c := pawl.New(h)
	h.before = func(int) { c.Close() }
	_, err := once.Do(t.Context(), c, "k", never[int](t))
	if !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// The last word of a runner that was cut off comes between another's look and its
// own first word: its result stands, and nothing runs again.
func TestAResultThatComesAtTheLastMomentStands(t *testing.T) {
	t.Parallel()
	mem := memlock.New()
	h := &hooked{Engine: mem, Records: mem}
	c := pawl.New(h)
	defer c.Close()
	const key = ".pawl/once/k"
	begun, err := mem.Store(t.Context(), key, []byte(`{"state":"running","token":"1","mark":"m","started":"2026-01-01T00:00:00Z"}`+"\n"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.before = func(stores int) {
		if stores == 1 {
			late := `{"state":"done","codec":"json","token":"1","mark":"n","started":"2026-01-01T00:00:00Z"}` + "\n8"
			if _, err := mem.Store(context.Background(), key, []byte(late), begun, 0); err != nil {
				t.Error(err)
			}
		}
	}
	if v, err := once.Do(t.Context(), c, "k", never[int](t)); v != 8 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
}
