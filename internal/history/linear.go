package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// window is how many grants are checked for linearizability at a time: the checker's
	// memory grows with the square. Grants that are further apart are compared by the
	// other rules.
	window  = 1000
	overlap = 100

	// patience is how long one window may take, and budget how long all of them.
	patience = 20 * time.Second
	budget   = 2 * time.Minute
)

// linearizable checks that each grant and each end of a hold can have happened in one
// moment between its call and its return, so that no moment had more holders than the
// name has room for, and that the tokens follow these moments. What is not decided by a
// moment stays undecided.
func linearizable(j *judge, name string, attempts []int, fencing bool, by time.Time) {
	grants := slices.DeleteFunc(slices.Clone(attempts), func(i int) bool { return j.h.Attempts[i].Result != Held })
	j.h.sort(grants, func(a *Attempt) Time { return a.Returned })
	j.v.Checked += len(grants)
	check := func(grants []int) porcupine.CheckResult {
		left := min(patience, time.Until(by))
		if left <= 0 {
			return porcupine.Unknown // 0 would be no limit
		}
		return porcupine.CheckOperationsTimeout(lockModel(fencing), j.operations(grants), left)
	}
	for from := 0; from < len(grants); from += window - overlap {
		part := grants[from:min(from+window, len(grants))]
		switch check(part) {
		case porcupine.Illegal:
			i, bad := shortest(part, func(p []int) bool { return check(p) == porcupine.Illegal })
			j.violated(name, j.h.Attempts[i].Returned, fmt.Sprintf("no order of grants and releases explains the %d grants until that of %s", bad, j.describe(i)), i)
		case porcupine.Unknown:
			j.v.Undecided++
		}
	}
}

// shortest returns the grant with which the first part of grants that is illegal ends, and
// how many it has.
func shortest(grants []int, illegal func([]int) bool) (last, n int) {
	lo, hi := 0, len(grants) // grants[:lo] is legal, grants[:hi] is not
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; illegal(grants[:mid]) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return grants[hi-1], hi
}

// A change is one grant, or the end of one.
type change struct {
	*Attempt
	id    int
	begin bool
}

// operations returns two operations for each grant.
func (j *judge) operations(grants []int) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(grants))
	for _, i := range grants {
		a := &j.h.Attempts[i]
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: change{a, i, true}, Call: int64(a.Called), Return: int64(a.Returned)})
		call, answered := max(a.Alive, a.Called), Forever
		if a.Unlock != 0 {
			call = a.Unlock
		}
		if a.End == Released {
			answered = a.Unlocked
		}
		if a.wasLost() { // it may have ended as soon as the lease no longer said that it is held
			call = max(a.Alive, a.Called)
		}
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: change{a, i, false}, Call: int64(call), Return: int64(answered)})
	}
	return ops
}

// A lockState is what a name is in one moment.
type lockState struct {
	held      []int // attempts, in order
	units     int
	last      uint64 // the largest token
	exclusive uint64 // the largest token of an exclusive grant
}

// lockModel is a lock that is held by as many as fit.
func lockModel(fencing bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, c := state.(lockState), input.(change)
			k, holds := slices.BinarySearch(s.held, c.id)
			if !c.begin {
				if !holds {
					return false, s
				}
				s.held = slices.Delete(slices.Clone(s.held), k, k+1)
				s.units -= c.Need
				return true, s
			}
			before := s.last
			if !c.Exclusive() {
				before = s.exclusive
			}
			if s.units+c.Need > c.Limit || fencing && c.Token <= before {
				return false, s
			}
			s.held = slices.Insert(slices.Clone(s.held), k, c.id)
			s.units += c.Need
			s.last = max(s.last, c.Token)
			if c.Exclusive() {
				s.exclusive = max(s.exclusive, c.Token)
			}
			return true, s
		},
		Equal: func(a, b any) bool {
			s, o := a.(lockState), b.(lockState)
			return s.units == o.units && s.last == o.last && s.exclusive == o.exclusive && slices.Equal(s.held, o.held)
		},
		DescribeOperation: func(input, _ any) string {
			c := input.(change)
			return fmt.Sprintf("%v %d of %d, token %d", c.begin, c.Need, c.Limit, c.Token)
		},
	}
}
