package driverkit

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Recheck is the time at which a waiting claim looks at the line without having
// been notified, because a claim ahead of it may have expired. An engine whose beats
// report that time again postpones it with each of them, and as long as all holders
// are alive no claim has to look. The zero Recheck is due now.
type Recheck struct {
	next    time.Time // when to look
	looked  time.Time // when the blocker was last read
	blocker string    // the blocker that was read then
}

// RecheckAfter returns the recheck of a claim that was just read as st.
func RecheckAfter(st driver.Standing) Recheck {
	now := time.Now()
	return Recheck{next: now.Add(st.Pause), looked: now, blocker: Blocker(st)}
}

// Beaten applies what a beat that was sent at sent has reported: the time for which
// the claim need not look, and its blocker. A new blocker makes a look due, but no more
// than one in every. A beat that was sent before the last look ended may be older than
// that look, and postpones nothing. Beaten reports whether the look is due sooner now.
func (r *Recheck) Beaten(sent time.Time, pause time.Duration, blocker string, every time.Duration) (sooner bool) {
	before := r.next
	if next := sent.Add(max(pause, time.Millisecond)); next.Before(before) || !sent.Before(r.looked) {
		r.next = next
	}
	if blocker != r.blocker {
		r.Suspect(every)
	}
	return r.next.Before(before)
}

// Suspect makes a look due because a beat found something in the line that only a look
// can resolve, but no more than one look in every. It reports whether the look is due
// sooner now.
func (r *Recheck) Suspect(every time.Duration) (sooner bool) {
	due := r.looked.Add(every)
	if sooner = due.Before(r.next); sooner {
		r.next = due
	}
	return sooner
}

// Left returns the time for which the claim need not look.
func (r *Recheck) Left() time.Duration { return time.Until(r.next) }

// shortID is how much of a claim's ID a beat reports.
const shortID = 8

// Blocker returns the claim that blocks a claim read as st, as far as a beat reports it:
// the first characters of the ID of an exclusive claim of pawl's. Shared claims come
// and go without changing it.
func Blocker(st driver.Standing) string {
	h := st.Holder
	if h == nil || h.Foreign || !h.Held || !h.Exclusive() {
		return ""
	}
	return h.ID[:min(len(h.ID), shortID)]
}
