package faultproxy

import (
	"sync"
	"testing"
	"time"
)

// A Network is the network between the members of a cluster, with a proxy for each way
// from one to another. It is safe for concurrent use.
type Network struct {
	t    testing.TB
	mu   sync.Mutex // guards ways
	ways map[[2]int][]*Proxy
}

// NewNetwork returns a network without members; Reach adds them.
func NewNetwork(t testing.TB) *Network { return &Network{t: t, ways: map[[2]int][]*Proxy{}} }

// Reach makes a way between two members and returns its address. A cluster of package
// testserver calls it.
func (n *Network) Reach(from, to int, addr string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := New(n.t, addr)
	pair := [2]int{from, to}
	n.ways[pair] = append(n.ways[pair], p)
	return p.Addr()
}

// Isolate cuts a member from all others, which notice nothing but silence. Clients still
// reach all.
func (n *Network) Isolate(member int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pair, ways := range n.ways {
		if pair[0] != member && pair[1] != member {
			continue
		}
		for _, p := range ways {
			p.BlackHole(Both)
		}
	}
}

// Delay delays everything between a member and all others, each way, by d.
func (n *Network) Delay(member int, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pair, ways := range n.ways {
		if pair[0] != member && pair[1] != member {
			continue
		}
		for _, p := range ways {
			p.Delay(Both, d)
		}
	}
}

// Heal opens all ways again. Their connections are new: what was sent before is lost.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ways := range n.ways {
		for _, p := range ways {
			p.Reset()
			p.Heal()
		}
	}
}
