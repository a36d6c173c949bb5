package dashboard

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// How much a timeline shows: in the drawing the latest claims, and in all so many of
// the claims that are in line now.
const (
	maxTimelineRows = 40
	maxTimelineNow  = 200
)

// The geometry of a timeline, in pixels. Times across are percentages.
const (
	timelineTop = 22 // the times
	timelineRow = 30
	timelineBar = 12 // from the top of a row; above it is its text
)

// A timeline is what is known of a name, as a drawing and as a table.
type timeline struct {
	Height  int
	Ticks   []tick
	Rows    []timelineClaim
	Gaps    []bar
	Spans   []spanRow // for the table, the latest first
	From    string
	To      string
	Dropped string // spans that ended until then are missing; empty: none
	Cut     int    // claims that are not drawn
	More    int    // claims in line now that are not in the table either
	Windows []window
}

type tick struct{ X, Shift, Anchor, Text string }

type bar struct {
	X, Width string
	Y        int
	Class    string
	Text     string
}

// A timelineClaim is one row of the drawing.
type timelineClaim struct {
	Key   string
	Label string
	Y     int
	Bars  []bar
}

// A spanRow is one row of the table.
type spanRow struct{ Key, Who, State, Token, From, To, Took string }

// A window is a link to another range of time.
type window struct {
	Minutes int
	Text    string
	Current bool
}

// newTimeline draws the spans of a name up to clock. Claims are rows, in the order in
// which they came. last limits the time that is shown; 0: since the server started.
func newTimeline(h *history, name string, now *line, clock time.Time, last time.Duration) timeline {
	spans, dropped := h.of(name)
	more := 0
	if now != nil {
		shown := now.entries[:min(maxTimelineNow, len(now.entries))]
		more = len(now.entries) - len(shown)
		for _, e := range shown {
			s := newSpan(e, now.read)
			s.to, s.open = clock, true
			spans = append(spans, *s)
		}
	}
	from := h.began
	if limit := clock.Add(-last); last > 0 && limit.After(from) {
		from = limit
	}
	to := clock
	if !to.After(from.Add(time.Second)) {
		to = from.Add(time.Second)
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.to.Before(from) })
	t := timeline{From: clockText(from), To: clockText(to), Windows: windows(last), More: more}
	if !dropped.IsZero() && dropped.After(from) {
		t.Dropped = clockText(dropped)
	}
	t.draw(spans, h.unseen(), from, to)
	slices.SortStableFunc(spans, func(a, b span) int { return b.to.Compare(a.to) })
	for _, s := range spans {
		t.Spans = append(t.Spans, newSpanRow(s))
	}
	return t
}

// draw fills the drawing.
func (t *timeline) draw(spans []span, gaps []gap, from, to time.Time) {
	slices.SortStableFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var order []string
	byID := map[string][]span{}
	for _, s := range spans {
		if byID[s.id] == nil {
			order = append(order, s.id)
		}
		byID[s.id] = append(byID[s.id], s)
	}
	t.Cut = max(0, len(order)-maxTimelineRows)
	for i, id := range order[t.Cut:] {
		row := timelineClaim{Key: text(id), Label: shorten(byID[id][0].who, 60), Y: timelineTop + i*timelineRow}
		for _, s := range byID[id] {
			b := newBar(s.from, s.to, from, to)
			b.Y, b.Class, b.Text = row.Y+timelineBar, "wait", s.describe()
			if s.held {
				b.Class = "hold"
			}
			row.Bars = append(row.Bars, b)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Height = timelineTop + max(1, len(t.Rows))*timelineRow
	for _, g := range gaps {
		if g.to.IsZero() {
			g.to = to
		}
		if g.to.After(from) {
			b := newBar(g.from, g.to, from, to)
			b.Text = "store not seen from " + clockText(g.from) + " to " + clockText(g.to)
			t.Gaps = append(t.Gaps, b)
		}
	}
	middle := from.Add(to.Sub(from) / 2)
	t.Ticks = []tick{{"0%", "6", "start", clockText(from)}, {"50%", "0", "middle", clockText(middle)}, {"100%", "-6", "end", clockText(to)}}
}

// newBar returns a bar from start to end on an axis from from to to. It is at least
// wide enough to be seen.
func newBar(start, end, from, to time.Time) bar {
	at := func(t time.Time) float64 { return 100 * min(1, max(0, float64(t.Sub(from))/float64(to.Sub(from)))) }
	x := min(at(start), 99.7)
	return bar{X: fmt.Sprintf("%.2f%%", x), Width: fmt.Sprintf("%.2f%%", max(0.3, at(end)-x))}
}

// state returns the state of a span in a word.
func (s span) state() string {
	if s.held {
		return "held"
	}
	return "waited"
}

// token returns the token as users see it; empty while it waits.
func (s span) token() string {
	if !s.held {
		return ""
	}
	return claimview.Token(s.fence << 8).String()
}

// describe describes a span in a phrase.
func (s span) describe() string {
	d := s.who + " " + s.state() + " for " + claimview.Brief(s.to.Sub(s.from))
	if token := s.token(); token != "" {
		d += ", token " + token
	}
	return d
}

func newSpanRow(s span) spanRow {
	r := spanRow{Key: text(s.id) + s.state() + s.token(), Who: s.who, State: s.state(), Token: s.token(),
		From: clockText(s.from), To: clockText(s.to), Took: claimview.Brief(s.to.Sub(s.from))}
	if s.open {
		r.To = "now"
	}
	return r
}

func windows(last time.Duration) []window {
	all := []window{{10, "10 minutes", false}, {60, "1 hour", false}, {0, "since the start", false}}
	for i := range all {
		all[i].Current = time.Duration(all[i].Minutes)*time.Minute == last
	}
	return all
}

// clockText returns a time of day, with the date if it is not today, in UTC.
func clockText(t time.Time) string {
	t = t.UTC()
	if now := time.Now().UTC(); t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05")
}

// shorten cuts s to at most most characters.
func shorten(s string, most int) string {
	if letters := []rune(s); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return s
}
