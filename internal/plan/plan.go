// Package plan is when a claim that waits in an engine's line looks for itself,
// although nobody has told it to: somebody ahead of it may have died. Where each beat
// learns anew when that is, it need not look at all as long as all is well.
package plan

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Plan is that of one claim. The zero Plan is to look now.
type Plan struct {
	next    time.Time // when to look
	looked  time.Time // when it was last seen who is in the way
	blocker string    // who that was
}

// After is the plan of a claim that has just been seen to stand at st.
func After(st driver.Standing) Plan {
	now := time.Now()
	return Plan{next: now.Add(st.Pause), looked: now, blocker: Blocker(st)}
}

// Learn takes over what a beat that was sent then has told: for how long the claim
// need not look, and who is in the way. Where that is another one than before, a look
// is due, but no more than one in every. One that was sent before the last look ended
// may be older than it, and puts nothing off. It reports whether the look is sooner now.
func (p *Plan) Learn(sent time.Time, pause time.Duration, blocker string, every time.Duration) (sooner bool) {
	before := p.next
	if next := sent.Add(max(pause, time.Millisecond)); next.Before(before) || !sent.Before(p.looked) {
		p.next = next
	}
	if blocker != p.blocker {
		p.Doubt(every)
	}
	return p.next.Before(before)
}

// Doubt is for a beat that has seen something in the line that only a look clears up:
// one is due, but no more than one in every. It reports whether the look is sooner now.
func (p *Plan) Doubt(every time.Duration) (sooner bool) {
	due := p.looked.Add(every)
	if sooner = due.Before(p.next); sooner {
		p.next = due
	}
	return sooner
}

// Left is for how long the claim need not look.
func (p *Plan) Left() time.Duration { return time.Until(p.next) }

// brief is how much of an ID a beat tells.
const brief = 8

// Blocker is who is in the way, as far as a beat tells it: how the ID of an exclusive
// claim of ours begins. Those who share come and go without it.
func Blocker(st driver.Standing) string {
	h := st.Holder
	if h == nil || h.Foreign || !h.Held || !h.Exclusive() {
		return ""
	}
	return h.ID[:min(len(h.ID), brief)]
}
