package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cell"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) { os.Exit(recipetest.Main(m)) }

type account struct {
	Owner string
	Cents int64
}

func TestACellIsWrittenOnlyOverTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c, ctx := open(t), t.Context()
		if v, version, err := cell.Load[account](ctx, c, "a"); err != nil || version != 0 || v != (account{}) {
			t.Fatalf("a cell that is not there: %v, version %d, %v", v, version, err)
		}
		one, err := cell.Store(ctx, c, "a", account{"ana", 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if stands, err := cell.Store(ctx, c, "a", account{"bob", 2}, 0); !errors.Is(err, cell.ErrConflict) || stands != one {
			t.Errorf("Store over version 0: version %d, %v", stands, err)
		}
		two, err := cell.Store(ctx, c, "a", account{"ana", 2}, one)
		if err != nil || two <= one {
			t.Fatalf("Store: version %d after %d, %v", two, one, err)
		}
		if v, version, err := cell.Load[account](ctx, open(t), "a"); err != nil || version != two || v != (account{"ana", 2}) {
			t.Errorf("another client reads %v, version %d, %v", v, version, err)
		}
		if err := cell.Delete(ctx, c, "a", one); !errors.Is(err, cell.ErrConflict) {
			t.Errorf("Delete of an old version: %v", err)
		}
		if err := cell.Delete(ctx, c, "a", two); err != nil {
			t.Error(err)
		}
		if three, err := cell.Store(ctx, c, "a", account{}, 0); err != nil || three <= two {
			t.Errorf("a new cell has version %d after %d, %v", three, two, err)
		}
	})
}

func TestAFailingFunctionWritesNothing(t *testing.T) {
	t.Parallel()
	c := recipetest.On("mem:")(t)
	wrong := errors.New("wrong")
	if _, err := cell.Update(t.Context(), c, "n", func(int) (int, error) { return 7, wrong }); !errors.Is(err, wrong) {
		t.Errorf("Update: %v, not the function's error", err)
	}
	func() {
		defer func() {
			if r := recover(); r != "oh" {
				t.Errorf("the panic is %v", r)
			}
		}()
		_, _ = cell.Update(t.Context(), c, "n", func(int) (int, error) { panic("oh") })
	}()
	if n, version, err := cell.Load[int](t.Context(), c, "n"); n != 0 || version != 0 || err != nil {
		t.Errorf("%d is written as version %d, %v", n, version, err)
	}
}

func TestBadInputIsTheDocumentedError(t *testing.T) {
	t.Parallel()
	c, ctx := recipetest.On("mem:")(t), t.Context()
	if _, err := cell.Store(ctx, c, "big", strings.Repeat("x", 64<<10), 0); !errors.Is(err, cell.ErrTooLarge) {
		t.Errorf("a large value: %v", err)
	}
	if _, err := cell.Store(ctx, c, "chan", make(chan int), 0); !errors.Is(err, cell.ErrCodec) {
		t.Errorf("a channel: %v", err)
	}
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("k", 1025)} {
		if _, _, err := cell.Load[int](ctx, c, key); !errors.Is(err, pawl.ErrInvalidName) {
			t.Errorf("key %.10q: %v", key, err)
		}
	}
	if _, err := cell.Store(ctx, c, "k", 1, 0, cell.WithKeep(-1)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("kept for less than nothing: %v", err)
	}
	if _, _, err := cell.Load[int](ctx, recipetest.WithoutRecords(t), "k"); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("an engine without records: %v", err)
	}
	r, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store(ctx, ".pawl/cell/odd", []byte("cbor MARK\n\xa0"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cell.Load[int](ctx, c, "odd"); !errors.Is(err, cell.ErrCodec) || !strings.Contains(err.Error(), "cbor") {
		t.Errorf("an unknown codec: %v", err)
	}
}

func TestLongKeysAreApart(t *testing.T) {
	t.Parallel()
	c, ctx := recipetest.On("mem:")(t), t.Context()
	for _, end := range []string{"a", "b"} {
		if _, err := cell.Store(ctx, c, strings.Repeat("k", 300)+end, end, 0); err != nil {
			t.Fatal(err)
		}
	}
	if v, _, err := cell.Load[string](ctx, c, strings.Repeat("k", 300)+"a"); v != "a" || err != nil {
		t.Errorf("the first reads %q, %v", v, err)
	}
}

// The reply to a write is swallowed: the update happened, and must be neither
// reported as failed nor made again.
func TestAnUpdateWhoseReplyWasLostCountsOnce(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, testserver.Redis(t).Addr())
	c, ctx := recipetest.On("redis://"+proxy.Addr())(t), t.Context()
	if _, err := cell.Update(ctx, c, "n", add); err != nil { // the script is known from here on
		t.Fatal(err)
	}
	for i := range 5 {
		proxy.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(b []byte) bool {
			return strings.Contains(string(b), "EVALSHA")
		}))
		n, err := cell.Update(ctx, c, "n", add)
		if err != nil || n != i+2 {
			t.Fatalf("update %d: %d, %v", i, n, err)
		}
	}
	if proxy.Swallowed() != 5 {
		t.Fatalf("%d replies were swallowed, not 5", proxy.Swallowed())
	}
}

func TestACellEndsWhenItWasToBeKeptNoLonger(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c, ctx := open(t), t.Context()
		if _, err := cell.Store(ctx, c, "brief", 1, 0, cell.WithKeep(50*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			_, version, err := cell.Load[int](ctx, c, "brief")
			if err != nil || time.Now().After(end) {
				t.Fatal("it does not end", err)
			}
			if version == 0 {
				break
			}
		}
	})
}

func ExampleUpdate() {
	ctx := context.Background()
	c, err := pawl.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	for range 3 {
		if _, err := cell.Update(ctx, c, "stock/42", func(n int) (int, error) { return n + 5, nil }); err != nil {
			fmt.Println(err)
		}
	}
	n, _, err := cell.Load[int](ctx, c, "stock/42")
	fmt.Println(n, err)
	// Output: 15 <nil>
}
