package history

import (
	"cmp"
	"fmt"
	"slices"
)

// uniqueTokens checks that no two grants of a name have the same token, and none has 0.
func uniqueTokens(j *judge, name string, attempts []int) {
	seen := map[uint64]int{}
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		if a.Result != Held {
			continue
		}
		j.v.Checked++
		if a.Token == 0 {
			j.violated(name, a.Returned, fmt.Sprintf("client %d held without a token", a.Client), i)
			continue
		}
		if k, twice := seen[a.Token]; twice {
			j.violated(name, max(a.Returned, j.h.Attempts[k].Returned), fmt.Sprintf("token %d was given to client %d at %v and to client %d at %v",
				a.Token, j.h.Attempts[k].Client, j.h.Attempts[k].Returned, a.Client, a.Returned), k, i)
		}
		seen[a.Token] = i
	}
}

// tokenOrder checks that a grant has a larger token than those that were held before it
// was asked for, and than those before it with which it cannot be held at the same time.
func tokenOrder(j *judge, name string, attempts []int) {
	holds := j.h.certainHolds(attempts)
	largest := make([]int, len(holds)) // by place in holds: the grant with the largest token so far
	exclusive, any := -1, -1
	for k, i := range holds {
		a := &j.h.Attempts[i]
		j.v.Checked++
		before := any
		if !a.Exclusive() {
			before = exclusive
		}
		if before >= 0 {
			j.compareTokens(name, before, i)
		}
		n, _ := slices.BinarySearchFunc(holds[:k], a.Called, func(g int, t Time) int { return cmp.Compare(j.h.Attempts[g].Returned, t) })
		if n > 0 && largest[n-1] != before {
			j.compareTokens(name, largest[n-1], i)
		}
		larger := func(m int) int {
			if m < 0 || j.h.Attempts[m].Token < a.Token {
				return i
			}
			return m
		}
		any = larger(any)
		if a.Exclusive() {
			exclusive = larger(exclusive)
		}
		largest[k] = any
	}
}

// compareTokens reports a token that is smaller than an earlier one.
func (j *judge) compareTokens(name string, earlier, later int) {
	a, b := &j.h.Attempts[earlier], &j.h.Attempts[later]
	if b.Token < a.Token {
		j.violated(name, b.Returned, fmt.Sprintf("%s held at %v, and %s at %v, later", j.describe(earlier), a.Returned, j.describe(later), b.Returned), earlier, later)
	}
}

// staleWrites checks the register: an accepted write never has a smaller token than one
// accepted before it, and a write is accepted if its lease still was held after the answer.
// When a write without an answer was decided is unknown.
func staleWrites(j *judge, name string, attempts []int) {
	type write struct {
		*Write
		attempt int
	}
	var writes []write
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		for k := range a.Writes {
			w := &a.Writes[k]
			if w.Seq == 0 {
				continue
			}
			writes = append(writes, write{w, i})
			if !w.Accepted && w.Answered != 0 && a.Alive > w.Answered {
				j.violated(name, w.Answered, fmt.Sprintf("a write of %s was refused at %v, though it held until %v at least", j.describe(i), w.Answered, a.Alive), i)
			}
		}
	}
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.Seq, b.Seq) })
	last := -1
	for _, w := range writes {
		j.v.Checked++
		if !w.Accepted {
			continue
		}
		if last >= 0 && j.h.Attempts[w.attempt].Token < j.h.Attempts[last].Token {
			j.violated(name, w.Answered, fmt.Sprintf("a write of %s was accepted after one of %s", j.describe(w.attempt), j.describe(last)), last, w.attempt)
		}
		last = w.attempt
	}
}
