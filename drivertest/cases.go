package drivertest

import (
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// A lawCase is one scenario that every engine must pass.
type lawCase struct {
	name  string
	law   int    // the law it checks; 0: a promise of package pawl
	why   string // the order of events, and what goes wrong if the engine gets it wrong
	needs needs
	run   func(*fixture)

	claimKind    claimKind
	delayed      bool // needs Harness.DelayEnter
	losesReplies bool // one reply in ten is lost, and the case retries those calls
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

// needs are the features that a case requires.
type needs struct{ queue, push, shared, count, fencing bool }

func (n needs) and(o needs) needs {
	return needs{n.queue || o.queue, n.push || o.push, n.shared || o.shared, n.count || o.count, n.fencing || o.fencing}
}

// A claimKind describes claims of which only one can be held at a time.
type claimKind struct {
	name        string
	need, limit int
	taken       int // units that another session holds throughout the case
	needs       needs
}

// claimKinds are the variants that every mutex case runs with. A semaphore of size
// 1 is missing because its claim is identical to the mutex.
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
	all = slices.Concat(all, wakeCases, cancelCases, sharedCases, limitCases, featureCases,
		tokenCases, beatCases, manyCases, crashCases, listCases, evictCases, delayedCases, closeCases, nameCases,
		recordCases, multiCases, leaverCases, watchCases, quorumNodeCases, randomCases)
	for _, c := range clientCases { // last: if a law is broken, the law's own case explains it better
		all = append(all, c)
		c.losesReplies = true
		all = append(all, c)
	}
	return all
}
