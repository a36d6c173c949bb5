package zkstore

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// hosts gives the library one server after the other. Unlike the library's own provider it
// leaves names to the dialer: a name whose address changes is found again, and its lookup
// ends with the dial.
type hosts struct {
	mu      sync.Mutex // guards what follows
	servers []string
	next    int
	tried   int // since the last good one
}

func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = slices.Clone(servers)
	rand.Shuffle(len(h.servers), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next returns the server to try, and whether all have been tried: the library then waits
// a second.
func (h *hosts) Next() (server string, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	all = h.tried > 0 && h.tried%len(h.servers) == 0
	h.next++
	h.tried++
	return server, all
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
