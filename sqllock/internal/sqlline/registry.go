package sqlline

import (
	"maps"
	"slices"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// openEngines are the engines of this process, for Guard: a lease does not say which
// engine it belongs to.
var openEngines = registry{engines: map[*Engine]struct{}{}}

type registry struct {
	mu      sync.Mutex // guards engines
	engines map[*Engine]struct{}
}

func (r *registry) add(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engines[e] = struct{}{}
}

func (r *registry) remove(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.engines, e)
}

// session returns the session in which a claim was entered, or nil.
func (r *registry) session(id string) (*session, driver.Claim) {
	r.mu.Lock()
	engines := slices.Collect(maps.Keys(r.engines))
	r.mu.Unlock()
	for _, e := range engines {
		for _, s := range e.sessions.All() {
			if c, ok := s.claims.Current(id); ok {
				return s, c
			}
		}
	}
	return nil, driver.Claim{}
}
