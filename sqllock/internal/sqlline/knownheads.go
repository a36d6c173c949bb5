package sqlline

import (
	"sync"
	"time"
)

// knownHeads are names whose head row was seen. A row may have been deleted since, which
// the batch that joins a line finds out: a name here is only a hint.
type knownHeads struct {
	mu    sync.Mutex           // guards names
	names map[string]time.Time // when it was last used
}

// maxKnownHeads bounds the set; a full one is emptied.
const maxKnownHeads = 10_000

func (h *knownHeads) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.names[key]
	return ok && time.Since(t) < idleAfter/2 // later a sweep may have deleted it
}

func (h *knownHeads) add(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil || len(h.names) >= maxKnownHeads {
		h.names = map[string]time.Time{}
	}
	h.names[key] = time.Now()
}
