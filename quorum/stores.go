package quorum

import (
	"fmt"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// stores is which store answers at each node, as the last Enlist there has told.
// Two names of one store, such as two addresses that lead to one server, would
// give it two votes, and two majorities need not have a store in common any more.
// So such a node is not asked, and nothing new is granted until it is another's.
type stores struct {
	mu sync.Mutex // guards at
	at []string   // by node; "": unknown
}

// meet takes note of the store that answers at node i, and refuses one that
// answers at another as well. It is noted all the same: where two addresses were
// exchanged, the other node is then free to be met anew.
func (e *Engine) meet(i int, store string) error {
	e.stores.mu.Lock()
	defer e.stores.mu.Unlock()
	e.stores.at[i] = store
	return e.sharedLocked(i)
}

// shared says which two nodes are one store; nil: none are known to be.
func (e *Engine) shared() error {
	e.stores.mu.Lock()
	defer e.stores.mu.Unlock()
	for i := range e.nodes {
		if err := e.sharedLocked(i); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) sharedLocked(i int) error {
	for j, store := range e.stores.at {
		if j != i && store != "" && store == e.stores.at[i] {
			return fmt.Errorf("quorum: %s and %s are one store (%s), which has one vote; every node must be a store of its own: %w",
				e.nodes[min(i, j)].Name, e.nodes[max(i, j)].Name, store, driver.ErrDenied)
		}
	}
	return nil
}
