package lockbench

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// on returns a function that opens clients of one store.
func on(e *memlock.Engine) func(opts ...pawl.Option) (*pawl.Client, error) {
	return func(opts ...pawl.Option) (*pawl.Client, error) { return pawl.New(e, opts...), nil }
}

func left(t *testing.T, e *memlock.Engine) (names []string) {
	t.Helper()
	for entry, err := range e.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, entry.Name)
	}
	return names
}

func TestEveryKindIsMeasuredAndLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds(4) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			e := memlock.New()
			r, err := Run(t.Context(), k, on(e), "bench/", 60*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if r.Times.N() == 0 || r.PerSecond() <= 0 && k.Clients == 1 || r.Took <= 0 {
				t.Errorf("%d times in %v", r.Times.N(), r.Took)
			}
			if r.Fewest > r.Most || r.Most == 0 {
				t.Errorf("%d to %d turns", r.Fewest, r.Most)
			}
			if got := left(t, e); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestAnEndBeforeItsTimeLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	for _, k := range Kinds(4) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			e := memlock.New()
			ctx, stop := context.WithCancelCause(t.Context())
			var turns atomic.Int32
			count := pawl.ObserverFunc(func(ev pawl.Event) {
				if ev.Kind == pawl.Acquired && turns.Add(1) == 3 {
					stop(stopped) // during the work: the first locks are not counted
				}
			})
			open := func(opts ...pawl.Option) (*pawl.Client, error) {
				return pawl.New(e, append(opts, pawl.WithObserver(count))...), nil
			}
			if _, err := Run(ctx, k, open, "bench/", time.Hour); !errors.Is(err, stopped) {
				t.Errorf("ended with %v", err)
			}
			if got := left(t, e); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestAStoreThatFailsIsTheError(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds(4) {
		e := memlock.New()
		_ = e.Close()
		if _, err := Run(t.Context(), k, on(e), "bench/", time.Hour); err == nil {
			t.Errorf("%s: no error", k.Name)
		}
	}
}

func TestAHistogramKeepsTimesWithinTwoPercent(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	for i := 1; i <= 1000; i++ {
		a.Add(time.Duration(i) * time.Microsecond)
		b.Add(time.Duration(i) * time.Millisecond)
	}
	a.Merge(&b)
	if a.N() != 2000 || a.Max() != time.Second || a.Mean() != 250_500_250 {
		t.Errorf("%d times, the longest %v, their mean %v", a.N(), a.Max(), a.Mean())
	}
	for q, want := range map[float64]time.Duration{0.25: 500 * time.Microsecond, 0.5: time.Millisecond, 0.75: 500 * time.Millisecond, 1: time.Second} {
		if got := a.Quantile(q); float64(got) < float64(want) || float64(got) > 1.03*float64(want) {
			t.Errorf("%v of all are at most %v, want %v", q, got, want)
		}
	}
	sum := 0
	bars := a.Bars(12)
	for i, bar := range bars {
		sum += bar.Count
		if bar.From >= bar.To || i > 0 && bars[i-1].To != bar.From {
			t.Errorf("bar %d: %+v", i, bar)
		}
	}
	if sum != 2000 || len(bars) > 12 || len(bars) < 10 {
		t.Errorf("%d bars of %d times", len(bars), sum)
	}
	var none Histogram
	if none.Quantile(0.5) != 0 || none.Bars(5) != nil {
		t.Error("an empty one tells something")
	}
	none.Add(0)
	none.Add(-time.Second) // as from a clock that was set back
	none.Add(24 * time.Hour)
	if none.N() != 3 {
		t.Error("a time that fits nowhere was not counted")
	}
}

func TestAPlotFitsItsColumns(t *testing.T) {
	t.Parallel()
	var h Histogram
	for i := range 5000 {
		h.Add(time.Duration(50+i%7*i%90) * time.Microsecond)
	}
	h.Add(30 * time.Millisecond)
	for _, columns := range []int{24, 40, 80, 200} {
		text := Plot(&h, columns, "", "")
		widest := 0
		for line := range strings.Lines(text) {
			widest = max(widest, len([]rune(strings.TrimRight(line, "\n"))))
		}
		if widest > columns || widest < columns-4 {
			t.Errorf("%d columns of %d:\n%s", widest, columns, text)
		}
		if !regexp.MustCompile(`(?m)^ +\S+ [µm]s \|\. <1 %$`).MatchString(text) {
			t.Errorf("the one that is alone is not to be seen:\n%s", text)
		}
		if marked := Plot(&h, columns, "<", ">"); strings.NewReplacer("|<", "|", "#>", "#", ".>", ".").Replace(marked) != text {
			t.Errorf("colour changes what is drawn:\n%s", marked)
		}
	}
}

func TestTimesAreWrittenInThreeDigits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1234: "1.23 µs", 12345: "12.3 µs", 123456: "123 µs", 999600: "1.00 ms", 12 * time.Second: "12.0 s", 90 * time.Minute: "5400 s",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
