// Package planted is engines with bugs, to show that a check of histories finds them: a
// memory engine that several processes use over the network, and a list of faults that
// are planted into it. Each is of a kind that lock libraries have had.
package planted

import (
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// A Bug is one planted fault of an engine.
type Bug struct {
	Name  string         // short, for the list
	Text  string         // what the engine does wrong, in which order of events
	Rules []history.Rule // any of which finds it
}

// A bug is a Bug and how it is planted: at the server, at the client, or into the client's
// connections.
type bug struct {
	Bug
	plant  func(t *store) hooks
	client func(s *remoteSession) driver.Session
	mixUp  bool // replies of a connection may be taken for others
	once   bool // a connection that broke is not replaced
}

var all = slices.Concat(grantBugs, tokenBugs, expiryBugs, releaseBugs, orderBugs, leakBugs, clientBugs)

// Bugs returns the list of planted bugs.
func Bugs() []Bug {
	bugs := make([]Bug, len(all))
	for i, b := range all {
		bugs[i] = b.Bug
	}
	return bugs
}

// byName returns the bug of a name; "" is none.
func byName(name string) (bug, error) {
	if name == "" {
		return bug{}, nil
	}
	for _, b := range all {
		if b.Name == name {
			return b, nil
		}
	}
	return bug{}, fmt.Errorf("planted: there is no bug %q", name)
}

// Rules that find a kind of bugs.
var (
	twoHolders = []history.Rule{history.Exclusion, history.LossInTime, history.Linearizable, history.StaleWrites}
	badTokens  = []history.Rule{history.UniqueTokens, history.TokenOrder, history.StaleWrites, history.Linearizable}
	stuck      = []history.Rule{history.Progress, history.NothingLeft}
	overtaken  = []history.Rule{history.ArrivalOrder}
	refused    = []history.Rule{history.TrueRefusals}
	lostLeases = []history.Rule{history.Renewed}

	stuckOrRefused = slices.Concat(stuck, refused)
	anyGrant       = slices.Concat(twoHolders, badTokens)
)
