package dashboard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// spell describes spans in seconds since a moment.
func spell(spans []span, from time.Time) string {
	var all []string
	for _, s := range spans {
		all = append(all, fmt.Sprintf("%s %s %.0f-%.0f", s.id, s.state(), s.from.Sub(from).Seconds(), s.to.Sub(from).Seconds()))
	}
	return strings.Join(all, ", ")
}

func TestHistoryHasWaitsAndHolds(t *testing.T) {
	start := time.Now()
	at := func(seconds int, entries ...driver.Entry) map[string]*line {
		return snap(start.Add(time.Duration(seconds)*time.Second), entries...).byName
	}
	h := newHistory(start, 100, 100)
	steps := []map[string]*line{
		at(10, held("a", "x", 4*time.Second), waits("b", "x", time.Second)),
		at(11, held("a", "x", 5*time.Second), waits("b", "x", 2*time.Second)),
		at(14, held("b", "x", 2*time.Second)), // a left, and b has held since 12
		at(20),
	}
	for i := range steps[1:] {
		h.compareAll(steps[i], steps[i+1], start.Add([]time.Duration{11, 14, 20}[i]*time.Second))
	}
	got, dropped := h.of("x")
	// a's hold ended between 11 and 14: it counts until it was seen no more.
	if want := "a x held 6-14, b x waited 9-12, b x held 12-20"; spell(got, start) != want || !dropped.IsZero() {
		t.Errorf("got %s, want %s; dropped %v", spell(got, start), want, dropped)
	}
}

func TestHistoryIsBoundedAndSaysWhatIsMissing(t *testing.T) {
	start := time.Now()
	h := newHistory(start, 50, 10)
	ended := func(name string, i int) {
		h.add(&span{name: name, id: fmt.Sprint(i), from: start, to: start.Add(time.Duration(i) * time.Second)})
	}
	for i := range 30 {
		ended("busy", i)
	}
	spans, dropped := h.of("busy")
	if len(spans) != 10 || spans[0].id != "20" || !dropped.Equal(start.Add(19*time.Second)) {
		t.Errorf("%d spans of a busy name from %s, dropped until %v", len(spans), spans[0].id, dropped.Sub(start))
	}
	if _, dropped := h.of("another"); !dropped.IsZero() {
		t.Errorf("another name has lost something at %v", dropped)
	}
	for i := range 1000 {
		ended(fmt.Sprint("name ", i), 100+i)
	}
	if n := h.spans.Len(); n != 50 || len(h.byName) != 50 {
		t.Errorf("%d spans of %d names are remembered, want 50", n, len(h.byName))
	}
	if spans, dropped := h.of("busy"); len(spans) != 0 || !dropped.Equal(start.Add(1049*time.Second)) {
		t.Errorf("%d spans of the busy name are left, dropped until %v", len(spans), dropped.Sub(start))
	}
	if text := newTimeline(h, "busy", nil, start.Add(2000*time.Second), 0).Dropped; text == "" {
		t.Error("the page does not say that something is missing")
	}
}

// The largest history is small: a hundred thousand spans with long names and notes
// pass through it.
func TestHistoryTakesLittleMemory(t *testing.T) {
	h := newHistory(time.Now(), maxSpans, maxSpansOfName)
	before := heap()
	for i := range 100_000 {
		e := held(fmt.Sprintf("session %d", i), fmt.Sprintf("%0250d", i), time.Second)
		e.ID, e.Note = fmt.Sprintf("%032d", i), strings.Repeat("n", driver.MaxNote)
		h.compare(newLine(e.Name, []driver.Entry{e}, time.Now(), nil), nil, time.Now())
	}
	used := heap() - before
	if n := h.spans.Len(); n != maxSpans {
		t.Errorf("%d spans", n)
	}
	t.Logf("%d spans with long names take %d KiB", maxSpans, used>>10)
	if limit := int64(maxSpans * 1500); used > limit {
		t.Errorf("history takes %d bytes, want at most %d", used, limit)
	}
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTheTimelineShowsTokensAndGaps(t *testing.T) {
	start := time.Now().Add(-100 * time.Second)
	h := newHistory(start, 100, 100)
	h.compare(newLine("x", []driver.Entry{held("a", "x", 10*time.Second)}, start.Add(20*time.Second), nil), nil, start.Add(30*time.Second))
	h.awayAt(start.Add(50 * time.Second))
	h.backAt(start.Add(60 * time.Second))
	now := newLine("x", []driver.Entry{held("b", "x", 30*time.Second), waits("c", "x", 10*time.Second)}, start.Add(100*time.Second), nil)
	tl := newTimeline(h, "x", now, start.Add(100*time.Second), 0)
	if len(tl.Rows) != 3 || len(tl.Spans) != 3 || len(tl.Gaps) != 1 {
		t.Fatalf("%d rows, %d spans, %d gaps", len(tl.Rows), len(tl.Spans), len(tl.Gaps))
	}
	if b := tl.Rows[0].Bars[0]; b.X != "10.00%" || b.Width != "20.00%" || b.Class != "hold" || !strings.Contains(b.Text, "token 1792") {
		t.Errorf("a's hold is %+v", b)
	}
	if b := tl.Gaps[0]; b.X != "50.00%" || b.Width != "10.00%" {
		t.Errorf("the gap is %+v", b)
	}
	if s := tl.Spans[0]; s.To != "now" {
		t.Errorf("the first row of the table is %+v", s)
	}
	if tl := newTimeline(h, "x", now, start.Add(100*time.Second), 35*time.Second); len(tl.Rows) != 2 || len(tl.Gaps) != 0 {
		t.Errorf("the last 35 seconds have %d rows and %d gaps", len(tl.Rows), len(tl.Gaps))
	}
}
