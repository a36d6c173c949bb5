package engines_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/memlock"
)

func expectNothingHeld(t *testing.T, c *pawl.Client) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var left []string
		for e, err := range c.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, e.Name)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still there: %q", left)
		}
	}
}

func TestAllNamesAreHeldOrNone(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		a, b, ctx := open(t), open(t), t.Context()
		lease, err := a.LockAll(ctx, []string{"z", "m", "a", "m"})
		if err != nil {
			t.Fatal(err)
		}
		if got := lease.Names(); !slices.Equal(got, []string{"a", "m", "z"}) {
			t.Errorf("names %q", got)
		}
		if _, err := b.TryLockAll(ctx, []string{"b", "m"}); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryLock over a held name: %v", err)
		}
		one, err := b.Mutex("b").TryLock(ctx)
		if err != nil {
			t.Fatalf("the name that was free is held after a TryLock that failed: %v", err)
		}
		_ = one.Unlock()
		before := lease.Part("m").Token()
		if err := lease.Unlock(); err != nil {
			t.Error(err)
		}
		next, err := b.Mutex("m").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if next.Token() <= before {
			t.Errorf("token %d follows %d", next.Token(), before)
		}
		_ = next.Unlock()
		expectNothingHeld(t, a)
	})
}

func TestOneDeadlineBoundsTheWholeWait(t *testing.T) {
	t.Parallel()
	open := recipetest.On("mem:")
	engine := memlock.New()
	holder, c := pawl.New(engine), pawl.New(engine, pawl.WithWait(50*time.Millisecond))
	defer holder.Close()
	defer c.Close()
	held, err := holder.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.LockAll(t.Context(), []string{"a", "m", "z"}); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("Lock: %v, not ErrHeld", err)
	}
	if free, err := holder.Mutex("a").TryLock(t.Context()); err != nil {
		t.Errorf("a is held after a Lock that failed: %v", err)
	} else {
		_ = free.Unlock()
	}
	_ = held.Unlock()
	if _, err := open(t).LockAll(t.Context(), nil); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("no names: %v", err)
	}
}

func TestTheLeaseIsLostWhenAnyNameIs(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		c := open(t)
		lease, err := c.LockAll(t.Context(), []string{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range c.List(t.Context(), "b") {
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Evict(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			break // in a quorum every node shows it
		}
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Minute):
			t.Fatal("a name was broken, and the lease goes on")
		}
		says(t, "Err", lease.Err(), pawl.ErrLost, "no longer knows it")
		if err := lease.Unlock(); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("Unlock: %v, not ErrLost", err)
		}
		expectNothingHeld(t, c)
	})
}

func TestThePartOfAnotherNamePanics(t *testing.T) {
	t.Parallel()
	lease, err := recipetest.On("mem:")(t).LockAll(t.Context(), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("it does not")
		}
	}()
	lease.Part("c")
}

func TestOverlappingNamesInAnyOrderNeverDeadlock(t *testing.T) { // not beside other tests: it computes
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) { mingle(t, open, 12, time.Second) })
}

func TestSoakOverlappingNamesInAnyOrderNeverDeadlock(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) { mingle(t, open, 200, max(d, 30*time.Second)) })
}

// mingle makes callers request random pairs of overlapping names in random order
// for a while, and each until it got three. Meanwhile half of the clients close,
// whatever they are doing, and the others must still succeed.
func mingle(t *testing.T, open recipetest.Opener, callers int, d time.Duration) {
	const processes = 6
	var busy [names]atomic.Bool
	ctx, cancel := context.WithTimeout(t.Context(), d+60*time.Second)
	defer cancel()
	var over atomic.Bool
	time.AfterFunc(d, func() { over.Store(true) })
	var holds atomic.Int64
	var all sync.WaitGroup
	var clients [processes]*pawl.Client
	for i := range clients {
		clients[i] = open(t)
	}
	for i := range callers {
		c, leaves := clients[i%processes], i%processes%2 == 1
		all.Go(func() {
			for n := 0; n < 3 || !over.Load(); n++ {
				x, y := rand.IntN(names), rand.IntN(names)
				lease, err := c.LockAll(ctx, []string{fmt.Sprint("n", x), fmt.Sprint("n", y)})
				if leaves && errors.Is(err, pawl.ErrClosed) {
					return
				}
				if errors.Is(err, pawl.ErrLost) { // the machine stalled
					continue
				}
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				holds.Add(1)
				for _, n := range distinct(x, y) {
					if busy[n].Swap(true) {
						t.Errorf("n%d is held twice", n)
					}
				}
				for _, n := range distinct(x, y) {
					busy[n].Store(false)
				}
				err = lease.Unlock()
				late := errors.Is(err, pawl.ErrLost) || errors.Is(err, pawl.ErrUnknown) // the machine stalled
				if err != nil && !late && !(leaves && errors.Is(err, pawl.ErrClosed)) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	time.AfterFunc(d/2, func() {
		for i, c := range clients {
			if i%2 == 1 {
				_ = c.Close()
			}
		}
	})
	all.Wait()
	t.Logf("%d holds in %v", holds.Load(), d)
	expectNothingHeld(t, clients[0])
}

func distinct(x, y int) []int {
	if x == y {
		return []int{x}
	}
	return []int{x, y}
}
