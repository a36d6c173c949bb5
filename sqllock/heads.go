package sqllock

import "sync"

// heads are names whose row was seen. One that was swept since is found missing
// by the queueing flight, so a name here is only a guess.
type heads struct {
	mu    sync.Mutex // guards names
	names map[string]struct{}
}

// maxHeads bounds what is remembered; then it begins anew.
const maxHeads = 10_000

func (h *heads) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.names[key]
	return ok
}

func (h *heads) add(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil || len(h.names) >= maxHeads {
		h.names = map[string]struct{}{}
	}
	h.names[key] = struct{}{}
}
