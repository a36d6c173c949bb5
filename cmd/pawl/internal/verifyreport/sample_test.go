package verifyreport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/historytest"
)

func TestAllOfAShortRunIsShown(t *testing.T) {
	t.Parallel()
	h := historytest.Invent(10_000, 1, true)
	page := write(t, run(h))
	d := data(t, page)
	if got := len(d.Attempts.Called); got != len(h.Attempts) || len(d.Gaps) != 0 || strings.Contains(page, `id="omitted"`) {
		t.Errorf("%d of %d attempts are shown, %d gaps", got, len(h.Attempts), len(d.Gaps))
	}
	t.Logf("%d attempts: %d bytes", len(h.Attempts), len(page))
	if len(page) > 2<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// Of a long run the page has a part, and says so. Where it does not say that something is
// missing, nothing is.
func TestALongRunIsSampledAndSaysSo(t *testing.T) {
	t.Parallel()
	h := historytest.Invent(200_000, 1, true)
	r := run(h)
	page := write(t, r)
	d := data(t, page)
	shown := len(d.Attempts.Called)
	t.Logf("%d attempts: %d bytes, %d shown, %d gaps", len(h.Attempts), len(page), shown, len(d.Gaps))
	if shown < maxAttempts/2 || shown > maxAttempts*3/2 || len(page) > 10<<20 {
		t.Errorf("%d attempts are shown, in %d bytes", shown, len(page))
	}
	if !strings.Contains(page, fmt.Sprintf("The timelines show %s of 200\u202f000 attempts", number(shown))) {
		t.Error("the page does not say that attempts are missing")
	}
	for _, v := range d.Violations {
		if len(v.Attempts) == 0 {
			t.Errorf("the attempts of violation %+v are missing", v)
		}
	}
	s := newScene(r)
	kept := map[int]bool{}
	for _, i := range s.kept {
		kept[i] = true
	}
	inGap := func(from, to history.Time) bool {
		for _, g := range s.gaps {
			if g.from <= from && to <= g.to {
				return true
			}
		}
		return false
	}
	at, near := r.Report.Gravest().At, 0
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if !kept[i] && !inGap(a.Called, s.until(a)) {
			t.Fatalf("attempt %d, from %v to %v, is missing, and no gap says so", i, a.Called, s.until(a))
		}
		if !kept[i] && a.End == history.Lost {
			t.Errorf("the loss of attempt %d is missing", i)
		}
		if a.Called > at-history.Time(time.Second) && a.Called < at+history.Time(time.Second) {
			near++
			if !kept[i] {
				t.Fatalf("attempt %d at %v is missing, and the violation is at %v", i, a.Called, at)
			}
		}
	}
	if near < 100 {
		t.Errorf("only %d attempts are near the violation", near)
	}
}

func TestManyNamesHaveNoTimeline(t *testing.T) {
	t.Parallel()
	h := historytest.Invent(3_000, 1, true)
	for i := range h.Attempts {
		if h.Attempts[i].Name == "permits" {
			h.Attempts[i].Name = fmt.Sprintf("a%03d", i)
		}
	}
	r := run(h)
	page := write(t, r)
	if got := strings.Count(page, `class="name"`); got != maxNames || !strings.Contains(page, "further names have no timeline") {
		t.Errorf("%d names have a timeline", got)
	}
	if d := data(t, page); d.Names[0] != r.Report.Gravest().Name {
		t.Errorf("the first timeline is that of %q, and the violation is on %q", d.Names[0], r.Report.Gravest().Name)
	}
}

// A clock that did not begin with the run, such as that of the machine, is shown from the
// first call on.
func TestTimesBeginWithTheRun(t *testing.T) {
	t.Parallel()
	h := &history.History{TTL: time.Second, Attempts: []history.Attempt{{
		Name: "a", Need: 1, Limit: 1, Called: history.Time(5 * time.Hour), Returned: history.Time(5*time.Hour + time.Millisecond),
		Result: history.Held, Token: 1, Alive: history.Time(5*time.Hour + 2*time.Millisecond),
	}}, Faults: []history.Fault{{Client: history.AllClients, Kind: "restart", From: history.Time(5*time.Hour + 1)}}}
	d := data(t, write(t, run(h)))
	if d.From != 0 || d.To != int64(2*time.Millisecond) || d.Attempts.Called[0] != 0 || d.Attempts.Over[0] != int64(2*time.Millisecond) || d.Faults[0].To != d.To {
		t.Errorf("the data are %+v", d)
	}
}
