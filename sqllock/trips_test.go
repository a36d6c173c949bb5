package sqllock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
)

// To take a free name is one request, and to give it back another; the first few
// make the row, and have their statements prepared.
func TestAFreeNameCostsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		s, name := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute), nameOf(t)
		const warm, visits = 5, 50
		before := 0
		for n := range warm + visits {
			if n == warm {
				before = p.Forwarded(faultproxy.ToServer)
			}
			c := mutex(name)
			hold(t, s, c)
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if trips := p.Forwarded(faultproxy.ToServer) - before; trips != 2*visits {
			t.Errorf("%d requests for %d visits", trips, visits)
		}
	})
}
