package dashboard

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// What is remembered, at most. A span takes less than 700 bytes, and about 300 with
// usual names.
const (
	maxSpans       = 20_000
	maxSpansOfName = 200
	maxGaps        = 200
	maxWho         = 120 // bytes of a note
)

// A span is a time in which a claim waited or was held.
type span struct {
	name  string
	id    string
	who   string
	held  bool
	fence uint64
	from  time.Time
	to    time.Time
	open  bool // it had not ended when it was read last
}

// A gap is a time in which the store was not seen; to is zero while it lasts.
type gap struct{ from, to time.Time }

// A history has the spans that have ended. Those that last are in the snapshot, so
// that memory depends on the limits and not on the store.
type history struct {
	began      time.Time
	most       int // spans in all
	mostOfName int

	mu      sync.Mutex // guards the fields below
	spans   *list.List // of *span, in the order in which they ended
	byName  map[string]*spansOfName
	gaps    []gap
	dropped time.Time // spans of any name that ended until then may be missing
}

// spansOfName are the spans of one name, in the order in which they ended.
type spansOfName struct {
	elements []*list.Element
	dropped  time.Time // its spans that ended until then are missing
}

func newHistory(began time.Time, most, mostOfName int) *history {
	return &history{began: began, most: most, mostOfName: mostOfName, spans: list.New(), byName: map[string]*spansOfName{}}
}

// compareAll adds what has ended between two listings.
func (h *history) compareAll(before, after map[string]*line, now time.Time) {
	for name, l := range before {
		h.compare(l, after[name], now)
	}
}

// compare adds what has ended between two readings of a line; either may be nil.
func (h *history) compare(before, after *line, now time.Time) {
	if before == nil || before.same(after) {
		return
	}
	find := after.finder()
	for _, e := range before.entries {
		to := now
		if at := find(e.ID); at >= 0 {
			next := after.entries[at]
			if next.Held == e.Held && next.Fence == e.Fence {
				continue // it lasts
			}
			to = after.read.Add(-next.Since)
		}
		s := newSpan(e, before.read)
		s.to = to
		if s.to.Before(s.from) {
			s.to = s.from
		}
		h.add(s)
	}
}

// newSpan returns the span of an entry that was read at a moment.
func newSpan(e driver.Entry, read time.Time) *span {
	v := claimview.New(e, 0)
	who := v.Who()
	if v.Holder != "" && v.Reason != "" { // otherwise it is a part of who
		who += " (" + v.Reason + ")"
	}
	if len(who) > maxWho {
		who = strings.ToValidUTF8(who[:maxWho], "") + "…"
	}
	return &span{name: e.Name, id: e.ID, who: claimview.EscapeHidden(who), held: e.Held, fence: e.Fence, from: read.Add(-e.Since)}
}

func (h *history) add(s *span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.byName[s.name]
	if of == nil {
		of = &spansOfName{}
		h.byName[s.name] = of
	}
	of.elements = append(of.elements, h.spans.PushBack(s))
	if len(of.elements) > h.mostOfName {
		of.dropped = h.dropLocked(of).to
	}
	if h.spans.Len() > h.most {
		oldest := h.spans.Front().Value.(*span)
		h.dropped = h.dropLocked(h.byName[oldest.name]).to
		if of := h.byName[oldest.name]; len(of.elements) == 0 {
			delete(h.byName, oldest.name)
		}
	}
}

// dropLocked removes the oldest span of a name. The spans of a name are in the same
// order as those of all names, so the oldest of all is the oldest of its name.
func (h *history) dropLocked(of *spansOfName) *span {
	s := h.spans.Remove(of.elements[0]).(*span)
	of.elements[0] = nil
	of.elements = of.elements[1:]
	return s
}

// of returns the spans of a name that have ended, and until when others are missing;
// zero if none is.
func (h *history) of(name string) (spans []span, dropped time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dropped = h.dropped
	if of := h.byName[name]; of != nil {
		for _, el := range of.elements {
			spans = append(spans, *el.Value.(*span))
		}
		if of.dropped.After(dropped) {
			dropped = of.dropped
		}
	}
	return spans, dropped
}

// awayAt says that the store is not seen from now on.
func (h *history) awayAt(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gaps = append(h.gaps, gap{from: now}); len(h.gaps) > maxGaps {
		h.gaps = h.gaps[1:]
	}
}

// backAt says that the store is seen again.
func (h *history) backAt(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.gaps); n > 0 {
		h.gaps[n-1].to = now
	}
}

// unseen returns the times in which the store was not seen.
func (h *history) unseen() []gap {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]gap(nil), h.gaps...)
}
