package driverkit

import (
	"maps"
	"slices"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// Waiters are the Awaits under way in an engine, for stores whose notifications tell of
// a name or a claim and not of a session. The zero Waiters are ready for use.
type Waiters struct {
	mu     sync.Mutex // guards what follows
	byID   map[string]*Waiter
	byName map[string]map[string]*Waiter // by name, then by claim ID
}

// Add adds the waiter of a claim. It comes before the claim is looked at.
func (a *Waiters) Add(c driver.Claim, w *Waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID, a.byName = map[string]*Waiter{}, map[string]map[string]*Waiter{}
	}
	if a.byName[c.Name] == nil {
		a.byName[c.Name] = map[string]*Waiter{}
	}
	a.byID[c.ID], a.byName[c.Name][c.ID] = w, w
}

// Remove takes back Add. Notifications do not reach w any more, so its next Await looks
// first.
func (a *Waiters) Remove(c driver.Claim, w *Waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.unknown()
	if a.byID[c.ID] != w {
		return // a later try of the claim waits
	}
	delete(a.byID, c.ID)
	delete(a.byName[c.Name], c.ID)
	if len(a.byName[c.Name]) == 0 {
		delete(a.byName, c.Name)
	}
}

// Wake makes the claims of these IDs look, and returns those that do not wait here.
func (a *Waiters) Wake(ids ...string) (elsewhere []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if w := a.byID[id]; w != nil {
			w.Wake()
		} else {
			elsewhere = append(elsewhere, id)
		}
	}
	return elsewhere
}

// WakeName makes the claims look that wait for a name.
func (a *Waiters) WakeName(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.byName[name] {
		w.Wake()
	}
}

// Find returns the waiter of a claim, or nil.
func (a *Waiters) Find(id string) *Waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byID[id]
}

// IDs returns the claims that wait for a name.
func (a *Waiters) IDs(name string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.byName[name]))
}

// Names returns the names that are waited for.
func (a *Waiters) Names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.byName))
}
