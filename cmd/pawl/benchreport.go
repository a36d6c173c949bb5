package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/internal/lockbench"
)

// A reporter prints the results, each as soon as it is known or all at the end.
type reporter interface {
	add(r *lockbench.Result)
	end() error
}

func (b *benchRun) reporter() reporter {
	switch {
	case b.json:
		return &jsonReport{benchRun: b, all: []benchJSON{}}
	case b.format == "gobench":
		_ = b.print("goos: %s\ngoarch: %s\npkg: github.com/pawl-go/pawl/cmd/pawl\nstore: %s\n", runtime.GOOS, runtime.GOARCH, b.store.shown)
		return (*lineReport)(b)
	}
	_ = b.print("%s, %s of each\n", b.store.shown, claimview.Brief(b.length))
	return (*textReport)(b)
}

// benchJSON is one kind of work in bench --json.
type benchJSON struct {
	Kind       string    `json:"kind"` // alone, apart, together or handoff
	Store      string    `json:"store"`
	Goroutines int       `json:"goroutines"`
	Clients    int       `json:"clients"`
	Seconds    float64   `json:"seconds"`              // duration of the measurement
	Count      int       `json:"count"`                // locks, or handoffs
	PerSecond  float64   `json:"per_second,omitempty"` // not for handoffs, which include waiting
	P50        float64   `json:"p50_us"`               // the median, in microseconds
	P90        float64   `json:"p90_us"`
	P99        float64   `json:"p99_us"`
	Max        float64   `json:"max_us"`
	Fewest     int       `json:"fewest"` // acquisitions of the goroutine that had the fewest
	Most       int       `json:"most"`
	Histogram  []barJSON `json:"histogram"`
}

// barJSON is one bar of the histogram.
type barJSON struct {
	From  float64 `json:"from_us"`
	To    float64 `json:"to_us"`
	Count int     `json:"count"`
}

type jsonReport struct {
	*benchRun
	all []benchJSON
}

func (j *jsonReport) add(r *lockbench.Result) {
	v := benchJSON{
		Kind: r.Name, Store: j.store.shown, Goroutines: r.Goroutines, Clients: r.Clients,
		Seconds: float64(r.Took.Milliseconds()) / 1000, Count: r.Times.N(), PerSecond: r.PerSecond(),
		P50: micros(r.Times.Quantile(0.5)), P90: micros(r.Times.Quantile(0.9)), P99: micros(r.Times.Quantile(0.99)), Max: micros(r.Times.Max()),
		Fewest: r.Fewest, Most: r.Most,
	}
	for _, b := range r.Times.Bars(24) {
		v.Histogram = append(v.Histogram, barJSON{micros(b.From), micros(b.To), b.Count})
	}
	j.all = append(j.all, v)
}

func (j *jsonReport) end() error { return j.printJSON(j.all) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// A lineReport prints the format of Go's own benchmarks.
type lineReport benchRun

func (l *lineReport) add(r *lockbench.Result) {
	perOp, rate := r.Times.Mean(), ""
	if r.PerSecond() > 0 { // as in Go benchmarks, the time is divided among all goroutines
		perOp, rate = r.Took/time.Duration(r.Times.N()), fmt.Sprintf(" %.1f locks/s", r.PerSecond())
	}
	_ = l.print("BenchmarkLock/%s/goroutines=%d %d %d ns/op%s %d p50-ns %d p90-ns %d p99-ns\n",
		r.Name, r.Goroutines, r.Times.N(), perOp, rate, r.Times.Quantile(0.5), r.Times.Quantile(0.9), r.Times.Quantile(0.99))
}

func (l *lineReport) end() error { return nil }

// A textReport prints for people.
type textReport benchRun

func (t *textReport) add(r *lockbench.Result) {
	mark, unmark := "", ""
	if t.coloured() {
		mark, unmark = "\x1b[32m", "\x1b[0m"
	}
	width := columnsIn(t.out)
	lines := []string{
		"", r.Name + ": " + r.Does,
		fmt.Sprintf("  half within %s, 99 %% within %s, at most %s", lockbench.Brief(r.Times.Quantile(0.5)), lockbench.Brief(r.Times.Quantile(0.99)), lockbench.Brief(r.Times.Max())),
		"  " + r.Of,
	}
	if r.PerSecond() > 0 {
		lines[2] = "  " + rate(r.PerSecond()) + " a second," + lines[2][1:]
	}
	if r.Name == "together" {
		lines[3] += fmt.Sprintf("; turns of a goroutine: %d to %d", r.Fewest, r.Most)
	}
	for _, line := range lines {
		_ = t.print("%s\n", cut(line, width))
	}
	_ = t.printRaw([]byte(lockbench.Plot(&r.Times, min(width, 100), mark, unmark)))
}

func (t *textReport) end() error { return nil }

// rate formats a rate with as many digits as are meaningful.
func rate(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
