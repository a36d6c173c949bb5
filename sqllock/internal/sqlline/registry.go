package sqlline

import (
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// openEngines is the set of this process's engines, for Guard: a lease does not say which
// engine it belongs to.
var openEngines sync.Map // of *Engine

// sessionOf returns the session in which a claim was entered, or nil.
func sessionOf(id string) (found *session, c driver.Claim) {
	openEngines.Range(func(e, _ any) bool {
		for _, s := range e.(*Engine).sessions.All() {
			if have, ok := s.claims.Current(id); ok {
				found, c = s, have
				return false
			}
		}
		return true
	})
	return found, c
}
