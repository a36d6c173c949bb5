package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// The kinds of cells.
const (
	held     = "held"     // leases of one client
	waiting  = "waiting"  // claims of one client behind the holder of one name
	clients  = "clients"  // clients with a claim each behind the holder of one name, which come at once
	arriving = "arriving" // the same, which come one after the other
	once     = "once"     // names that are locked once
	records  = "records"  // keys of package once

	starts = "starts" // nothing: the servers are there, which may have to be fetched or built first
)

func allKinds() []string { return []string{held, waiting, clients, arriving, once, records} }

// names reports whether a kind counts what is left of names in the store.
func names(kind string) bool { return kind == once || kind == records }

// noLink is the round trip of a store without servers.
const noLink = -1

// A cell is one measurement.
type cell struct {
	Store string
	Kind  string
	RTT   int // in milliseconds; noLink
}

func (c cell) String() string {
	if c.RTT == noLink {
		return c.Store + " " + c.Kind
	}
	return fmt.Sprintf("%s %s %d ms", c.Store, c.Kind, c.RTT)
}

// rungs are the numbers that are tried, up to most unless that is 0, and the one that is
// tried first: what was borne over a longer link, if that is known; else the goal, so that
// a store that reaches it takes two steps.
func rungs(kind string, most int, longer *result) (all []int, first int) {
	all = []int{100, 300, 1000, 3000, 10_000, 30_000}
	if kind == clients || kind == arriving {
		all = []int{10, 30, 100, 300, 1000}
	}
	all = slices.DeleteFunc(all, func(n int) bool { return most > 0 && n > most })
	if longer != nil {
		return all, max(0, slices.Index(all, longer.Bears))
	}
	return all, min(4, len(all)-1)
}

// A step is what came of one number.
type step struct {
	N       int
	OK      bool
	Fault   string  `json:",omitempty"` // why not
	Seconds float64 // until all were held or in line
	Pace    float64 `json:",omitempty"` // of handoffs, or of names used, in a second
	Left    int     `json:",omitempty"` // of names, in the store one TTL after the end
	Swept   float64 `json:",omitempty"` // seconds from the end until nothing was left
	Stalled float64 // the longest time in seconds for which the program did not run
	Late    bool    `json:",omitempty"` // the time was over: a fault only if it was the whole of it
	Error   string  `json:",omitempty"` // the measurement itself failed
}

// A result is a measured cell.
type result struct {
	cell
	Bears   int    // the highest number without a fault; 0 if there is none
	Below   int    // the lowest with one; 0 if there is none
	Open    bool   // the time was over before all numbers between these were tried
	Steps   []step // in the order in which they were tried
	Date    string
	Machine string
	TTL     string
	Limit   string // of the cell's time
}

// ready makes sure that the servers of a store are there.
func (c *command) ready(ctx context.Context, store string) error {
	_, err := runStep(ctx, spec{cell: cell{Store: store, Kind: starts}, TTL: c.ttl, Limit: 20 * time.Minute})
	return err
}

// takeShare is the part of a cell's time in which all must be held or in line. Those that
// arrive one after the other do so in two thirds of it.
const takeShare = 2

// leastStep is how much of a cell's time a further step needs, in TTLs.
const leastStep = 4

// measure runs the steps of one cell, each in a process of its own with servers of its
// own, so that none is disturbed by what an earlier one has left. With longer, the result
// of a longer link, it begins there.
func (c *command) measure(ctx context.Context, of cell, longer *result) (result, error) {
	r := result{cell: of}
	begun := time.Now()
	if names(of.Kind) {
		s, err := runStep(ctx, spec{cell: of, N: c.names, TTL: c.ttl, Limit: 5 * c.limit})
		r.Steps = []step{s}
		if s.OK {
			r.Bears = s.N
		}
		return r, err
	}
	all, first := rungs(of.Kind, c.most, longer)
	lo, hi, err := search(len(all), first, func(i int) (ok, again bool, err error) {
		left := c.limit - time.Since(begun)
		if left < leastStep*c.ttl && len(r.Steps) > 0 {
			return false, false, nil
		}
		s, err := runStep(ctx, spec{cell: of, N: all[i], TTL: c.ttl, Take: c.limit / takeShare, Limit: left})
		if err != nil || s.Late && len(r.Steps) > 0 {
			return false, false, err
		}
		r.Steps = append(r.Steps, s)
		return s.OK, true, nil
	})
	if lo >= 0 {
		r.Bears = all[lo]
	}
	if hi < len(all) {
		r.Below = all[hi]
	}
	r.Open = hi-lo > 1
	return r, err
}

// search finds the highest of n rungs that holds, beginning at first. It returns the
// highest that was seen to hold, -1 for none, and the lowest that was seen not to, n for
// none; they are apart by one unless try has ended the search.
func search(n, first int, try func(i int) (ok, again bool, err error)) (lo, hi int, err error) {
	lo, hi = -1, n
	for next := first; hi-lo > 1; next = (lo + hi + 1) / 2 {
		ok, again, err := try(next)
		if err != nil || !again {
			return lo, hi, err
		}
		if ok {
			lo = next
		} else {
			hi = next
		}
	}
	return lo, hi, nil
}
