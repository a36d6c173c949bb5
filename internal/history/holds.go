package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// exclusion checks that the certain holds of a name never need more units than it has.
func exclusion(j *judge, name string, attempts []int) {
	var held []int // those that may still hold
	for _, i := range j.h.certainHolds(attempts) {
		a := &j.h.Attempts[i]
		j.v.Checked++
		held = slices.DeleteFunc(held, func(k int) bool { return j.h.Attempts[k].Alive <= a.Returned })
		limit, units := a.Limit, a.Need
		for _, k := range held {
			units += j.h.Attempts[k].Need
			limit = min(limit, j.h.Attempts[k].Limit)
		}
		if units > limit && len(held) > 0 {
			b := &j.h.Attempts[held[0]]
			j.violated(name, a.Returned, fmt.Sprintf("%s held since %v and until %v at least; %s held at %v",
				j.describe(held[0]), b.Returned, b.Alive, j.describe(i), a.Returned), held[0], i)
		}
		held = append(held, i)
	}
}

// notice is how long after a context has ended its reader may run. The lease's claim is left
// at once, so a rival can hold before that.
const notice = Time(50 * time.Millisecond)

// lossInTime checks that a holder which lost its lease had been told before a rival was
// granted. What the lease said when it was asked counts without exception; that its
// context ended in time too is checked where the process ran all the while, to within what
// it takes to notice.
func (d *disturbances) lossInTime(j *judge, name string, attempts []int) {
	grants := j.h.certainHolds(attempts)
	at := func(k int) *Attempt { return &j.h.Attempts[grants[k]] }
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		if a.Result != Held || !a.wasLost() {
			continue
		}
		j.v.Checked++
		// Rivals that were granted before a saw its grant are the concern of other rules.
		k, _ := slices.BinarySearchFunc(grants, a.Returned+1, func(g int, t Time) int { return cmp.Compare(j.h.Attempts[g].Returned, t) })
		for ; k < len(grants) && at(k).Returned < max(a.Alive, a.Told-notice); k++ {
			b := at(k)
			if grants[k] == i || !a.conflicts(b) {
				continue
			}
			if b.Returned < a.Alive || !d.stoodStill(a.Client, a.Alive, a.Told) {
				told := "never told of the loss"
				if a.Told != 0 {
					told = fmt.Sprintf("told of the loss at %v", a.Told)
				}
				j.violated(name, b.Returned, fmt.Sprintf("%s was held until %v by what its lease said, and %s; %s held at %v",
					j.describe(i), a.Alive, told, j.describe(grants[k]), b.Returned), i, grants[k])
			}
			break
		}
	}
}

// kept checks that a claim of a client to which nothing was done stays in the store: a hold
// until it is given back or its deadline passes, and a place in a line that has an order.
// Where a hold lasted for moments, no rival may have been seen beside it.
func (d *disturbances) kept(j *judge, name string, attempts []int, order bool) {
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		if over := max(a.Told, a.Unlocked); a.Result == Held && a.End != Open && !d.disturbed(a.Client, a.Called, over) {
			j.v.Checked++
			if a.Early && d.couldRenew(a.Client, over) {
				j.violated(name, over, fmt.Sprintf("%s had lost its lease at %v, before its deadline; nothing was done to it", j.describe(i), over), i)
			}
		}
		if at := max(a.Queued, a.Forgotten); order && at != 0 && a.Fair && !d.disturbed(a.Client, a.Called, at) {
			j.v.Checked++
			if a.Forgotten != 0 && d.couldRenew(a.Client, at) {
				j.violated(name, at, fmt.Sprintf("client %d was in line, and had lost its place at %v; nothing was done to it", a.Client, at), i)
			}
		}
	}
}

// renewed checks that a hold which lasted for so long that only beats kept it did not end at
// its deadline, if nothing was done to its client and that ran: however many wait, a holder
// is renewed in time. One that the store ended before is the concern of kept.
func (d *disturbances) renewed(j *judge, name string, attempts []int) {
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		over := max(a.Alive, a.Told, a.Unlocked)
		if a.Result != Held || a.End == Open || a.Early || over-a.Returned < Time(j.h.TTL/2) ||
			d.disturbed(a.Client, a.Returned, over) || !d.couldRenew(a.Client, over) {
			continue
		}
		j.v.Checked++
		if a.wasLost() {
			j.violated(name, over, fmt.Sprintf("%s held since %v, and was not renewed before its deadline: it had lost its lease at %v; nothing was done to it",
				j.describe(i), a.Returned, over), i)
		}
	}
}

// couldRenew reports whether a client ran enough until a moment to renew its claims: many
// short stalls may keep it from that.
func (d *disturbances) couldRenew(client int, until Time) bool {
	const span = 2
	return d.ran(client, until-Time(span*d.h.TTL), until) > span*d.h.TTL-d.h.TTL/3
}
