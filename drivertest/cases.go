package drivertest

import (
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// A lawCase is one sentence that an engine must keep.
type lawCase struct {
	name  string
	law   int    // 0: a promise of package pawl
	why   string // the order of events it is about, and what goes wrong without it
	needs needs
	run   func(*fixture)

	claimKind    claimKind
	delayed      bool // a request is held up, see Harness.Late
	losesReplies bool // every tenth reply is lost, and the case repeats its calls
}

func (c lawCase) title() string {
	title := c.name
	if c.claimKind.name != "" {
		title += "/" + c.claimKind.name
	}
	if c.losesReplies {
		title += "/with lost replies"
	}
	return title
}

// needs are the features without which a case has no meaning.
type needs struct{ queue, push, shared, count, fencing bool }

func (n needs) and(o needs) needs {
	return needs{n.queue || o.queue, n.push || o.push, n.shared || o.shared, n.count || o.count, n.fencing || o.fencing}
}

// A kind is a sort of claim of which only one at a time can be held.
type claimKind struct {
	name        string
	need, limit int
	taken       int // units that somebody else holds throughout
	needs       needs
}

// kinds are what the mutex cases run over. A semaphore of 1 is the mutex: the
// claim is the same.
var claimKinds = []claimKind{
	{name: "mutex", need: 1, limit: 1},
	{name: "writer", need: driver.All, limit: driver.All, needs: needs{shared: true}},
	{name: "whole semaphore", need: 3, limit: 3, needs: needs{count: true}},
	{name: "last unit of a semaphore", need: 1, limit: 5, taken: 4, needs: needs{count: true}},
}

// cases returns the whole suite.
func cases() []lawCase {
	var all []lawCase
	for _, c := range slices.Concat(enterCases, tryCases, lineCases, stressCases) {
		for _, k := range claimKinds {
			c.claimKind, c.losesReplies = k, false
			one := c
			one.needs = c.needs.and(k.needs)
			all = append(all, one)
		}
		c.claimKind, c.losesReplies = claimKinds[0], true
		all = append(all, c)
	}
	all = slices.Concat(all, wakeCases, cancelCases, sharedCases, limitCases, refuseCases,
		tokenCases, beatCases, crashCases, listCases, evictCases, delayedCases, closeCases, nameCases,
		recordCases, multiCases, watchCases, voterCases, randomCases)
	for _, c := range clientCases { // last: when a law is broken, its own case says it better
		all = append(all, c)
		c.losesReplies = true
		all = append(all, c)
	}
	return all
}
