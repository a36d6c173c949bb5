package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
)

type receipt struct {
	Order string
	Cents int
}

func TestTheWorkOfAKeyRunsOnceAndDuplicatesGetItsResult(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		const keys, calls = 5, 16
		var runs [keys]atomic.Int64
		clients := []*pawl.Client{open(t), open(t), open(t), open(t)}
		var all sync.WaitGroup
		for i := range keys * calls {
			key, c := i%keys, clients[i/keys%len(clients)]
			all.Go(func() {
				want := receipt{fmt.Sprint("o", key), key}
				got, err := once.Do(t.Context(), c, fmt.Sprint("order/", key), func(ctx context.Context) (receipt, error) {
					runs[key].Add(1)
					if once.Token(ctx) == 0 {
						t.Error("a run without a token")
					}
					return want, nil
				})
				if err != nil || got != want {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		all.Wait()
		for key := range runs {
			if n := runs[key].Load(); n != 1 {
				t.Errorf("key %d ran %d times", key, n)
			}
		}
		for e := range clients[0].List(t.Context(), "") {
			t.Errorf("%s is still held", e.Name)
		}
	})
}

func TestADuplicateDoesNotWaitUnlessItWantsTo(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		a, b, ctx := open(t), open(t), t.Context()
		_, err := once.Do(ctx, a, "k", func(context.Context) (int, error) {
			_, err := once.Do(ctx, b, "k", never[int](t), once.WithWait(0))
			var e *once.Error
			if !errors.Is(err, once.ErrRunning) || !errors.As(err, &e) || e.Record.State != once.Running {
				t.Errorf("a duplicate that does not wait: %v", err)
			}
			if err := once.Forget(ctx, b, "k"); !errors.Is(err, once.ErrRunning) {
				t.Errorf("Forget while it runs: %v", err)
			}
			return 1, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := once.Do(ctx, b, "k", never[int](t)); v != 1 || err != nil {
			t.Errorf("a later duplicate: %d, %v", v, err)
		}
	})
}

// never is a function that must not run.
func never[T any](t *testing.T) func(context.Context) (T, error) {
	return func(context.Context) (v T, err error) {
		t.Helper()
		t.Error("it runs again")
		return v, nil
	}
}

func TestAnErrorIsForgottenUnlessItIsToBeRemembered(t *testing.T) {
	t.Parallel()
	c, ctx := recipetest.On("mem:")(t), t.Context()
	declined := errors.New("card declined")
	fails := func(err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return "", err }
	}
	works := func(context.Context) (string, error) { return "paid", nil }

	if _, err := once.Do(ctx, c, "passing", fails(declined)); err != declined {
		t.Errorf("the function's error comes as %v", err)
	}
	if v, err := once.Do(ctx, c, "passing", works); v != "paid" || err != nil {
		t.Errorf("after a passing error: %q, %v", v, err)
	}
	for key, remembered := range map[string]func() error{
		"marked": func() error { _, err := once.Do(ctx, c, "marked", fails(once.Permanent(declined))); return err },
		"all":    func() error { _, err := once.Do(ctx, c, "all", fails(declined), once.WithKeepErrors()); return err },
	} {
		if err := remembered(); !errors.Is(err, declined) {
			t.Errorf("%s: the runner gets %v", key, err)
		}
		_, err := once.Do(ctx, c, key, never[string](t))
		if e, ok := errors.AsType[*once.Error](err); !errors.Is(err, once.ErrFailed) || !ok || e.Record.Failure != declined.Error() {
			t.Errorf("%s: a duplicate gets %v", key, err)
		}
	}
	cut, cancel := context.WithCancel(ctx)
	_, err := once.Do(cut, c, "cut", func(ctx context.Context) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}, once.WithKeepErrors(), once.WithHold())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was cancelled: %v", err)
	}
	if v, err := once.Do(ctx, c, "cut", works); v != "paid" || err != nil {
		t.Errorf("after a cancelled run: %q, %v", v, err)
	}
}

func TestAResultIsKeptThoughTheCallerHasGone(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		v, err := once.Do(ctx, c, "k", func(context.Context) (int, error) { cancel(); return 7, nil })
		if v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if v, err := once.Do(t.Context(), c, "k", never[int](t)); v != 7 || err != nil {
			t.Errorf("a duplicate: %d, %v", v, err)
		}
	})
}

func TestAnotherPayloadUnderTheSameKeyIsAnErrorThatCarriesTheRecord(t *testing.T) {
	t.Parallel()
	c, ctx := recipetest.On("mem:")(t), t.Context()
	one := func(context.Context) (int, error) { return 1, nil }
	if _, err := once.Do(ctx, c, "k", one, once.WithPayload([]byte("10 EUR"))); err != nil {
		t.Fatal(err)
	}
	_, err := once.Do(ctx, c, "k", never[int](t), once.WithPayload([]byte("99 EUR")))
	e, ok := errors.AsType[*once.Error](err)
	if !errors.Is(err, once.ErrMismatch) || !ok || e.Record.State != once.Done || string(e.Record.Result) != "1" {
		t.Errorf("another payload: %v", err)
	}
	for _, opts := range [][]once.Option{nil, {once.WithPayload([]byte("10 EUR"))}} {
		if v, err := once.Do(ctx, c, "k", never[int](t), opts...); v != 1 || err != nil {
			t.Errorf("the same payload: %d, %v", v, err)
		}
	}
	_, _ = once.Do(ctx, c, "busy", func(context.Context) (int, error) { // also while it runs, and without a wait
		_, err := once.Do(context.Background(), c, "busy", never[int](t), once.WithPayload([]byte("b")))
		if !errors.Is(err, once.ErrMismatch) {
			t.Errorf("another payload while the first runs: %v", err)
		}
		return 1, nil
	}, once.WithPayload([]byte("a")))
}

func TestAPanicIsPassedOnAndForgotten(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c := open(t)
		func() {
			defer func() {
				if r := recover(); r != "oh" {
					t.Errorf("the panic is %v", r)
				}
			}()
			_, _ = once.Do(t.Context(), c, "k", func(context.Context) (int, error) { panic("oh") }, once.WithHold())
		}()
		for e := range c.List(t.Context(), "") {
			t.Errorf("%s is still held", e.Name)
		}
		if v, err := once.Do(t.Context(), open(t), "k", func(context.Context) (int, error) { return 2, nil }); v != 2 || err != nil {
			t.Errorf("after a panic: %d, %v", v, err)
		}
	})
}

func TestAResultThatCannotBeKeptIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c, ctx := open(t), t.Context()
		big := strings.Repeat("x", 70<<10)
		v, err := once.Do(ctx, c, "big", func(context.Context) (string, error) { return big, nil })
		if !errors.Is(err, once.ErrTooLarge) || v != big {
			t.Errorf("the runner gets %d bytes, %v", len(v), err)
		}
		if v, err := once.Do(ctx, c, "big", never[string](t)); !errors.Is(err, once.ErrTooLarge) || v != "" {
			t.Errorf("a duplicate gets %d bytes, %v", len(v), err)
		}
		if _, err := once.Do(ctx, c, "chan", func(context.Context) (chan int, error) { return make(chan int), nil }); !errors.Is(err, once.ErrCodec) {
			t.Errorf("the runner gets %v", err)
		}
		if _, err := once.Do(ctx, c, "chan", never[chan int](t)); !errors.Is(err, once.ErrCodec) {
			t.Errorf("a duplicate gets %v", err)
		}
		raw := []byte(strings.Repeat("\x00", 60<<10))
		if v, err := once.Do(ctx, c, "raw", func(context.Context) ([]byte, error) { return raw, nil }); err != nil || len(v) != len(raw) {
			t.Errorf("bytes: %d, %v", len(v), err)
		}
		if v, err := once.Do(ctx, c, "raw", never[[]byte](t)); err != nil || string(v) != string(raw) {
			t.Errorf("bytes for a duplicate: %d, %v", len(v), err)
		}
		if _, err := once.Do(ctx, c, "raw", never[int](t)); !errors.Is(err, once.ErrCodec) {
			t.Errorf("read as another type: %v", err)
		}
		if v, err := once.Do(ctx, c, "any", func(context.Context) (any, error) { return []byte("ab"), nil }); err != nil || v == nil {
			t.Errorf("any: %v, %v", v, err)
		}
		if v, err := once.Do(ctx, c, "any", never[any](t)); err != nil || v == nil {
			t.Errorf("any for a duplicate: %v, %v", v, err)
		}
	})
}

func TestBadInputIsTheDocumentedError(t *testing.T) {
	t.Parallel()
	c, ctx := recipetest.On("mem:")(t), t.Context()
	for _, key := range []string{"", "a\nb", "\xff", strings.Repeat("k", 1025)} {
		if _, err := once.Do(ctx, c, key, never[int](t)); !errors.Is(err, pawl.ErrInvalidName) {
			t.Errorf("key %.8q: %v", key, err)
		}
	}
	if _, err := once.Do(ctx, c, "k", never[int](t), once.WithKeep(0)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("kept for nothing: %v", err)
	}
	if _, err := once.Do(ctx, c, "k", never[int](t), once.WithLockOptions(pawl.WithTTL(-1))); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a TTL of less than nothing: %v", err)
	}
	if _, err := once.Do(ctx, recipetest.WithoutRecords(t), "k", never[int](t)); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("an engine without records: %v", err)
	}
	r, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{"odd": "nonsense", "codec": `{"state":"done","codec":"cbor","token":"1","mark":"m","started":"2026-01-01T00:00:00Z"}` + "\n\xa0"} {
		if _, err := r.Store(ctx, ".pawl/once/"+key, []byte(text), 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := once.Do(ctx, c, key, never[int](t)); !errors.Is(err, once.ErrCodec) {
			t.Errorf("%s: %v", key, err)
		}
		if err := once.Forget(ctx, c, key); err != nil {
			t.Errorf("%s cannot be forgotten: %v", key, err)
		}
	}
}

func TestAKeyRunsAgainWhenItsResultIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) {
		c, runs := open(t), 0
		for end := time.Now().Add(20 * time.Second); runs < 2; time.Sleep(5 * time.Millisecond) {
			_, err := once.Do(t.Context(), c, "k", func(context.Context) (int, error) { runs++; return runs, nil }, once.WithKeep(40*time.Millisecond))
			if err != nil || time.Now().After(end) {
				t.Fatal("it never ran again", err)
			}
		}
	})
}

func ExampleDo() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()

	order := []byte(`{"id": 42, "cents": 1999}`)
	for range 3 { // the order arrives three times
		number, err := once.Do(ctx, c, "orders/42", func(ctx context.Context) (string, error) {
			fmt.Println("charged")
			return "receipt-1", nil
		}, once.WithPayload(order), once.WithHold())
		fmt.Println(number, err)
	}
	// Output:
	// charged
	// receipt-1 <nil>
	// receipt-1 <nil>
	// receipt-1 <nil>
}
