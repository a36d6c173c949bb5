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
				j.violated(name, b.Returned, fmt.Sprintf("%s was held until %v by what its lease said, and told of the loss at %v; %s held at %v",
					j.describe(i), a.Alive, a.Told, j.describe(grants[k]), b.Returned), i, grants[k])
			}
			break
		}
	}
}
