// Package nodes holds one client's sessions at the nodes of a quorum, and decides
// which nodes vote. It knows nothing of claims.
//
// It promises to the floor above:
//   - A call at a node ends within [Sessions.Limit], whatever the node's client does,
//     and a node that stopped answering collects a bounded number of calls.
//   - A session is opened when it is first needed, and again after the node ended it.
//   - A session is handed out only after it enlisted for this quorum at a store that
//     no other node uses.
//   - A node that lost its data votes again only after every lease from before its
//     loss has expired, in a new epoch, and with a mark that no earlier token exceeds.
package nodes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Node is one of the stores that vote.
type Node struct {
	Name   string
	Engine driver.Engine
}

// A Set is the nodes of one quorum and which store answers at each of them.
type Set struct {
	Nodes    []Node
	Majority int
	MaxTTL   time.Duration
	ID       string // identifies the quorum to its nodes

	mu     sync.Mutex // guards stores
	stores []string   // by node: the store that answered its last Enlist; "": unknown
}

// NewSet checks the nodes' names and the longest TTL.
func NewSet(nodes []Node, maxTTL time.Duration) (*Set, error) {
	if len(nodes) < 3 {
		return nil, fmt.Errorf("quorum: %d nodes; a majority that survives the loss of one needs three", len(nodes))
	}
	if maxTTL < time.Millisecond {
		return nil, fmt.Errorf("quorum: the longest ttl is %v", maxTTL)
	}
	var names []string
	for _, n := range nodes {
		if n.Name == "" || slices.Contains(names, n.Name) {
			return nil, fmt.Errorf("quorum: node %q is named twice or not at all", n.Name)
		}
		names = append(names, n.Name)
	}
	return &Set{
		Nodes: nodes, Majority: len(nodes)/2 + 1, MaxTTL: maxTTL,
		ID: ID(names, maxTTL), stores: make([]string, len(nodes)),
	}, nil
}

// ID returns what identifies a quorum to its nodes. Clients that disagree on the longest
// TTL are as dangerous as clients that disagree on the nodes: one of them would end a
// node's silence too early.
func ID(names []string, maxTTL time.Duration) string {
	names = slices.Sorted(slices.Values(names))
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00") + "\x00\x00" + maxTTL.String()))
	return hex.EncodeToString(sum[:16])
}

// readers is the smallest number of nodes such that every majority contains one of them.
func (s *Set) readers() int { return len(s.Nodes) - s.Majority + 1 }

// silence is how long a node that lost its data does not vote: longer than any lease
// from before the loss can last.
func (s *Set) silence() time.Duration { return Silence(s.MaxTTL) }

// Silence returns how long a node that lost its data does not vote.
func Silence(maxTTL time.Duration) time.Duration { return maxTTL + drift(maxTTL) }

// SharedStore returns an error that names two nodes which are one store, and nil if no
// such nodes are known. Two addresses of one server would give it two votes, and two
// majorities would no longer have a store in common.
func (s *Set) SharedStore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.Nodes {
		if err := s.sharedLocked(i); err != nil {
			return err
		}
	}
	return nil
}

// setStore records the store that answers at node i and refuses a store that also answers at
// another node. A refused store is recorded too: after two addresses were
// swapped, the other node can then connect to its new store.
func (s *Set) setStore(i int, store string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores[i] = store
	return s.sharedLocked(i)
}

func (s *Set) sharedLocked(i int) error {
	for j, store := range s.stores {
		if j != i && store != "" && store == s.stores[i] {
			return fmt.Errorf("quorum: %s and %s are one store (%s), which has one vote; every node must be a store of its own: %w",
				s.Nodes[min(i, j)].Name, s.Nodes[max(i, j)].Name, store, driver.ErrDenied)
		}
	}
	return nil
}

// drift bounds how far two clocks diverge during a lease.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
