package eventcheck

import (
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
)

// A recorder counts the events of one client and checks their order.
type recorder struct {
	mu     sync.Mutex // guards the following
	n      map[pawl.Kind]uint64
	waited uint64
	held   map[hold]bool
	faults []pawl.Event // that ended what had not begun, or lack something
}

// A hold is one grant. Tokens are unique for one name.
type hold struct {
	name  string
	token uint64
}

// Observe implements pawl.Observer.
func (r *recorder) Observe(e pawl.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n, r.held = map[pawl.Kind]uint64{}, map[hold]bool{}
	}
	r.n[e.Kind]++
	h := hold{e.Name, e.Token}
	good := e.Store != "" && e.Name != "" && !e.Time.IsZero()
	switch e.Kind {
	case pawl.Waiting:
		good = good && e.ID != "" && e.Context != nil
	case pawl.Acquired, pawl.HandedOver:
		good = good && e.Token != 0 && e.Context != nil && e.Took >= 0 && !r.held[h]
		r.held[h] = true
		if e.Waited && e.Kind == pawl.Acquired {
			r.waited++
		}
	case pawl.GaveUp, pawl.Refused:
		good = good && e.Err != nil && e.Context != nil
	case pawl.Released, pawl.Lost:
		good = good && r.held[h] && (e.Cause != 0) == (e.Kind == pawl.Lost) && (e.Kind != pawl.Lost || e.Err != nil)
		delete(r.held, h)
	}
	over := r.waited + r.n[pawl.HandedOver] + r.n[pawl.GaveUp]
	if !good || over > r.n[pawl.Waiting] {
		r.faults = append(r.faults, e)
	}
}

// check compares what was seen with the client's numbers.
func (r *recorder) check(t *testing.T, st pawl.Stats) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.faults {
		t.Errorf("out of order or incomplete: %v of %q: %+v", e.Kind, e.Name, e)
	}
	for h := range r.held {
		t.Errorf("%q was held with token %d and never ended", h.name, h.token)
	}
	for kind, n := range map[pawl.Kind]uint64{
		pawl.Waiting: st.Waiting, pawl.Acquired: st.Acquired, pawl.HandedOver: st.HandedOver, pawl.GaveUp: st.GaveUp, pawl.Refused: st.Refused,
		pawl.InDoubt: st.InDoubt, pawl.Renewed: st.Renewed, pawl.Released: st.Released, pawl.Lost: st.Lost,
	} {
		if r.n[kind] != n {
			t.Errorf("%d events of %v, and Stats has %d", r.n[kind], kind, n)
		}
	}
	if r.waited != st.Waited {
		t.Errorf("%d of Acquired had waited, and Stats has %d", r.waited, st.Waited)
	}
}
