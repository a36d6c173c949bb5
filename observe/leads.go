package observe

import (
	"maps"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
)

// Leads are the elections in which this process campaigned, and those that it leads. The zero
// value is empty.
type Leads struct {
	mu     sync.Mutex     // guards leases
	leases map[string]int // leaderships by election; 0: it only campaigned, or led before
}

// Observe takes in an event, and ignores locks that belong to no election.
//
// Leaderships are counted, because the end of one may be told after the begin of the next: two
// candidates of one process are observed by different goroutines.
func (l *Leads) Observe(e pawl.Event) {
	name, ok := election.NameOfLock(e.Name)
	if !ok {
		return
	}
	change := 0
	switch e.Kind {
	case pawl.Acquired, pawl.HandedOver:
		change = 1
	case pawl.Released, pawl.Lost:
		change = -1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases == nil {
		l.leases = map[string]int{}
	}
	l.leases[name] += change
}

// All returns the elections by name, with whether this process leads.
func (l *Leads) All() map[string]bool {
	l.mu.Lock()
	leases := maps.Clone(l.leases)
	l.mu.Unlock()
	all := make(map[string]bool, len(leases))
	for name, n := range leases {
		all[name] = n > 0
	}
	return all
}
