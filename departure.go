package pawl

import (
	"container/heap"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// A departure is a claim that must not stay in the store: given up, lost, or
// left without an answer. The keeper repeats its Leave until it is answered and
// one TTL has passed since the last Enter that was not: that Enter may still be
// on its way, arrive after a Leave that found nothing, and stand in line for as
// long as the session lives.
type departure struct {
	claim   driver.Claim
	held    bool    // the store had granted it: others wait for its end
	after   instant // not to be left before this
	arrives instant // when the last unanswered Enter can no longer arrive; 0: there was none
	again   instant // when to repeat
	since   instant // when it became one
	tries   int     // Leaves that did not complete it
}

func (d *departure) due() instant { return max(d.after, d.again) }

// overdue reports whether a departure need not be tried any more. The claim has not
// been prolonged since it became one, so it has expired: an Enter that arrives at the
// last moment lives for one TTL, and so does a claim whose last beat is as late.
func (d *departure) overdue(now instant, ttl time.Duration) bool {
	return now >= max(d.since, d.arrives).Add(2*ttl)
}

// final reports whether no Enter of the claim can arrive after a Leave that was sent at
// the given time.
func (d *departure) final(sent instant) bool { return sent >= d.arrives }

// departures are those of one session. The session's mutex guards them.
type departures struct {
	all     map[*departure]bool // and whether a call is under way that leaves it
	held    departureHeap       // those of all that no call leaves
	waiting departureHeap       // the same, of claims that nobody waits for
}

func (ds *departures) queue(d *departure) *departureHeap {
	if d.held {
		return &ds.held
	}
	return &ds.waiting
}

// add adds a departure, or puts back one that was taken.
func (ds *departures) add(d *departure) {
	if ds.all == nil {
		ds.all = map[*departure]bool{}
	}
	ds.all[d] = false
	heap.Push(ds.queue(d), d)
}

// take returns up to most departures that are due, those that others wait for first.
func (ds *departures) take(now instant, most int) (due []*departure) {
	for _, q := range []*departureHeap{&ds.held, &ds.waiting} {
		for len(due) < most && q.next() <= now {
			d := heap.Pop(q).(*departure)
			ds.all[d] = true
			due = append(due, d)
		}
	}
	return due
}

// drop ends a departure that was taken.
func (ds *departures) drop(d *departure) { delete(ds.all, d) }

// next returns when the next departure is due.
func (ds *departures) next() instant { return min(ds.held.next(), ds.waiting.next()) }

// A departureHeap is ordered by when the departures are due.
type departureHeap []*departure

func (h departureHeap) next() instant {
	if len(h) == 0 {
		return claimset.Never
	}
	return h[0].due()
}

func (h departureHeap) Len() int           { return len(h) }
func (h departureHeap) Less(i, j int) bool { return h[i].due() < h[j].due() }
func (h departureHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *departureHeap) Push(d any)        { *h = append(*h, d.(*departure)) }

func (h *departureHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
