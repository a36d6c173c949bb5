package pawl

import (
	"sync"
	"testing"
)

// A pair is one hold: what Acquired begins and Released or Lost ends.
type pair struct {
	name  string
	token uint64
}

// pairs is an observer that fails on an event that is incomplete, or ends what has not
// begun.
type pairs struct {
	t      *testing.T
	direct bool       // it is called by the goroutine of the event
	mu     sync.Mutex // guards the following
	n      [kinds]uint64
	waited uint64
	held   map[pair]bool
}

// directPairs is a DirectObserver.
type directPairs struct{ pairs }

func (*directPairs) Direct() {}

func (r *pairs) Observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[e.Kind]++
	h := pair{e.Name, e.Token}
	good := e.Store != "" && e.Name != "" && e.Time.IsZero() == r.direct && e.Took >= 0
	switch e.Kind {
	case Waiting:
		good = good && e.ID != "" && e.Context != nil
	case Acquired, HandedOver:
		good = good && e.Token != 0 && e.Context != nil && !r.held[h] && e.ID != ""
		r.held[h] = true
		if e.Waited && e.Kind == Acquired {
			r.waited++
		}
		if e.Kind == HandedOver && !e.Waited {
			good = false
		}
	case GaveUp, Refused:
		good = good && e.Err != nil && e.Context != nil
	case Released, Lost:
		good = good && r.held[h] && (e.Cause != 0) == (e.Kind == Lost) && (e.Kind != Lost || e.Err != nil)
		delete(r.held, h)
	}
	over := r.waited + r.n[HandedOver] + r.n[GaveUp]
	if !good || over > r.n[Waiting] {
		r.t.Errorf("bad event (direct %v): %+v", r.direct, e)
	}
}

// check compares what was seen with the numbers of the closed client.
func (r *pairs) check(st Stats) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.held {
		r.t.Errorf("held %v never ended", h)
	}
	want := [kinds]uint64{0, st.Waiting, st.Acquired, st.HandedOver, st.InDoubt, st.Renewed, st.Released, st.Lost, st.GaveUp, st.Refused}
	if r.n != want || r.waited != st.Waited {
		r.t.Errorf("direct %v seen %v stats %v", r.direct, r.n, want)
	}
	adds := st.Waiting == st.Waited+st.HandedOver+st.GaveUp && st.Acquired+st.HandedOver == st.Released+st.Lost
	rests := st.WaitingNow == 0 && st.Held == 0 && st.Sessions == 0 && st.Departures == 0
	if !adds || !rests || st.Unobserved != 0 {
		r.t.Errorf("does not add up: %+v", st)
	}
}
