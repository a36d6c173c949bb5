package dashboard

import (
	"slices"
	"sync"
)

// A hub has the current state, wakes those who wait for the next one, and knows
// which names browsers are looking at.
type hub struct {
	mu      sync.Mutex // guards the fields below
	state   *state
	changed chan struct{} // closed by publish, which makes a new one
	viewers map[*viewer]struct{}
}

// A viewer is one open stream.
type viewer struct{ names []string } // guarded by the hub

func newHub() *hub {
	return &hub{state: &state{}, changed: make(chan struct{}), viewers: map[*viewer]struct{}{}}
}

// current returns the state, and a channel that is closed when there is another.
func (h *hub) current() (*state, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

func (h *hub) publish(s *state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = s
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hub) join() *viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &viewer{}
	h.viewers[v] = struct{}{}
	return v
}

func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
}

// shows says which names a viewer sees, the most important first.
func (h *hub) shows(v *viewer, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.names = names
}

// watched returns at most most names that viewers see. Pages with few names come
// first, so that many long pages cannot push out the page of one name.
func (h *hub) watched(most int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lists := make([][]string, 0, len(h.viewers))
	for v := range h.viewers {
		lists = append(lists, v.names)
	}
	slices.SortFunc(lists, func(a, b []string) int { return len(a) - len(b) })
	seen := map[string]bool{}
	var all []string
	for _, names := range lists {
		for _, name := range names {
			if seen[name] {
				continue
			}
			if len(all) == most {
				return all
			}
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}
