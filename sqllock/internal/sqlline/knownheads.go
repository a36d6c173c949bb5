package sqlline

import "sync"

// knownHeads are names whose head row was seen. A row may have been deleted since, which
// the batch that joins a line finds out: a name here is only a hint.
type knownHeads struct {
	mu    sync.Mutex // guards names
	names map[string]struct{}
}

// maxKnownHeads bounds the set; a full one is emptied.
const maxKnownHeads = 10_000

func (h *knownHeads) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.names[key]
	return ok
}

func (h *knownHeads) add(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil || len(h.names) >= maxKnownHeads {
		h.names = map[string]struct{}{}
	}
	h.names[key] = struct{}{}
}
