package zkstore

import (
	"math/rand/v2"
	"slices"
)

// hosts gives the library one server after the other. Unlike the library's own provider it
// leaves names to the dialer: a name whose address changes is found again, and its lookup
// ends with the dial. The library calls Init before it starts the goroutine that makes
// connections, and the other methods on that goroutine alone.
type hosts struct {
	servers []string
	next    int
	tried   int // since the last good one
}

func (h *hosts) Init(servers []string) error {
	h.servers = slices.Clone(servers)
	rand.Shuffle(len(h.servers), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try, and whether all have been tried: the library then waits
// a second.
func (h *hosts) Next() (server string, all bool) {
	server = h.servers[h.next%len(h.servers)]
	all = h.tried > 0 && h.tried%len(h.servers) == 0
	h.next++
	h.tried++
	return server, all
}

func (h *hosts) Connected() { h.tried = 0 }
