package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// arrivalOrder checks that nobody was granted before somebody who had been in line when
// the other asked, for pairs that cannot hold at the same time. A client to which
// something was done while it waited may have lost its place.
func (d *disturbances) arrivalOrder(j *judge, name string, attempts []int) {
	h := j.h
	// firstGrant[k] is the earliest grant among attempts[k:], by kind.
	firstGrant := make([][2]int, len(attempts)+1)
	firstGrant[len(attempts)] = [2]int{-1, -1}
	for k := len(attempts) - 1; k >= 0; k-- {
		firstGrant[k] = firstGrant[k+1]
		a := &h.Attempts[attempts[k]]
		if !a.certain() || !a.Fair {
			continue
		}
		for kind, counts := range [2]bool{true, a.Exclusive()} {
			if f := &firstGrant[k][kind]; counts && (*f < 0 || a.Returned < h.Attempts[*f].Returned) {
				*f = attempts[k]
			}
		}
	}
	for _, i := range attempts {
		a := &h.Attempts[i]
		if a.Queued == 0 || !a.Fair || a.Try {
			continue
		}
		until := a.Returned // until then it waited
		if !a.certain() {
			until = a.Cancelled
			if a.Returned != 0 {
				until = min(until, a.Returned) // it had failed when it was cancelled
			}
		}
		if until == 0 || d.disturbed(a.Client, a.Called, until) {
			continue
		}
		j.v.Checked++
		k, _ := slices.BinarySearchFunc(attempts, a.Queued+1, func(g int, t Time) int { return cmp.Compare(h.Attempts[g].Called, t) })
		kind := 0 // a writer is overtaken by anybody, a reader by a writer
		if !a.Exclusive() {
			kind = 1
		}
		if f := firstGrant[k][kind]; f >= 0 && h.Attempts[f].Returned < until {
			b := &h.Attempts[f]
			j.violated(name, b.Returned, fmt.Sprintf("client %d was in line at %v and waited until %v; client %d asked at %v and held at %v",
				a.Client, a.Queued, until, b.Client, b.Called, b.Returned), i, f)
		}
	}
}

// occupied returns the intervals in which a claim may have been in the store that did not
// wait undisturbed: holds, and what was left by clients that are gone. They are merged and
// in order.
func (d *disturbances) occupied(attempts []int) (all []interval) {
	for _, i := range attempts {
		a := &d.h.Attempts[i]
		v := d.presence(a)
		if waits := d.settled(a.Client, a.Returned); v.from == a.Called && waits < a.Returned {
			all = append(all, interval{a.Called, max(a.Called, waits)}) // from then on it waited until it returned
			v.from = a.Returned
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	merged := all[:0]
	for _, v := range all {
		if n := len(merged); n > 0 && v.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, v.to)
			continue
		}
		merged = append(merged, v)
	}
	return merged
}

// An interval is from one moment to another.
type interval struct{ from, to Time }

// presence returns when a may have held, or been in the way of others without waiting.
func (d *disturbances) presence(a *Attempt) interval {
	gone := Time(max(2*d.h.TTL, d.h.Expiry)) // after this a claim has expired
	switch {
	case a.Result == NoAnswer:
		return interval{a.Called, d.lastFault(a.Client, a.Called) + gone}
	case a.Result == Held && a.End == Open: // its process held on until it was killed
		return interval{a.Called, d.killed(a.Client, max(a.Alive, a.Told, a.Unlock)) + gone}
	case a.Result == Held && a.End == Released && !d.disturbed(a.Client, a.Called, a.Unlocked):
		return interval{a.Returned, a.Unlocked}
	case a.Result == Held:
		return interval{a.Called, max(a.Alive, a.Told, a.Unlock, a.Unlocked) + gone}
	case d.disturbed(a.Client, a.Called, a.Returned):
		return interval{a.Called, a.Returned + gone}
	case a.Result == Failed:
		return interval{a.Returned, a.Returned + gone/4} // it leaves the line
	}
	return interval{a.Called, a.Returned} // refused
}

// lastFault returns the end of the last fault of a client after a moment, or that moment.
func (d *disturbances) lastFault(client int, after Time) Time {
	for _, f := range d.byClient[client] {
		after = max(after, f.To)
	}
	return after
}

// killed returns when a client was killed that ran at a moment, or that moment.
func (d *disturbances) killed(client int, ran Time) Time {
	for _, f := range d.byClient[client] {
		if f.Kind == Kill && f.To >= ran {
			return f.To
		}
	}
	return ran
}

// killedOrEnd returns when the process of an attempt began to be killed, or the end of the
// history.
func (d *disturbances) killedOrEnd(a *Attempt) Time {
	for _, f := range d.byClient[a.Client] {
		if f.Kind == Kill && f.From >= a.Called {
			return f.From
		}
	}
	return d.h.End
}

// progress checks that no waiter waited while the name was free, and that no acquire waited
// as long to be in line at all while nothing was granted to its client. A wait that never
// ended is one until its process was killed, or until the end of the history. Of a wait in
// which something was done to the client, the part counts that came so long after it that the
// client was in line again. A history that is too short for such a wait shows nothing.
func (d *disturbances) progress(j *judge, name string, attempts []int) {
	if time.Duration(j.h.End) <= Idle(j.h.TTL) {
		return
	}
	occupied := d.occupied(attempts)
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		if a.Try || a.Queued == 0 && a.Result != Failed && a.Result != NoAnswer {
			continue
		}
		until := cmp.Or(a.Returned, d.killedOrEnd(a))
		if a.Result == Failed && a.Cancelled != 0 {
			until = min(until, a.Cancelled)
		}
		if a.Queued == 0 && a.Result == Failed && a.Cancelled == 0 {
			d.servedAgain(j, name, i)
			continue
		}
		from := max(a.Called, a.Queued, d.settled(a.Client, until))
		if until <= from {
			continue
		}
		j.v.Checked++
		if a.Queued == 0 {
			if from = max(from, d.lastAnswer(a.Client, until)); from < until && d.ran(a.Client, from, until) > Idle(j.h.TTL) {
				j.violated(name, until, fmt.Sprintf("client %d asked at %v and had no answer at %v; nothing was granted to it since %v, and nothing done to it",
					a.Client, a.Called, until, from), i)
			}
			continue
		}
		if gap := longestGap(occupied, from, until, func(from, to Time) time.Duration { return d.ran(a.Client, from, to) }); gap.length > Idle(j.h.TTL) {
			j.violated(name, gap.to, fmt.Sprintf("client %d waited from %v to %v; the name was free from %v to %v",
				a.Client, a.Queued, until, gap.from, gap.to), i)
		}
	}
}

// servedAgain checks an acquire that failed by itself, which may take no time: its client is
// served again soon after what was done to it, as the others are.
func (d *disturbances) servedAgain(j *judge, name string, i int) {
	a := &j.h.Attempts[i]
	from := max(d.began[a.Client], d.settled(a.Client, a.Returned), d.lastAnswer(a.Client, a.Returned))
	if a.Returned <= from {
		return
	}
	j.v.Checked++
	if d.ran(a.Client, from, a.Returned) <= Idle(j.h.TTL) {
		return
	}
	for other := range d.answers {
		if other != a.Client && d.lastAnswer(other, a.Returned) > a.Returned-Time(Idle(j.h.TTL)) {
			j.violated(name, a.Returned, fmt.Sprintf("client %d failed again at %v: %s; nothing was granted to it since %v, nothing done to it, and others were served",
				a.Client, a.Returned, a.Err, from), i)
			return
		}
	}
}

// lastAnswer returns the last moment until another at which a client had an answer that only
// the store gives: a grant, or a release. It may be refused, and wait, inside its process.
func (d *disturbances) lastAnswer(client int, until Time) Time {
	at := d.answers[client]
	if i, _ := slices.BinarySearch(at, until+1); i > 0 {
		return at[i-1]
	}
	return 0
}

// Idle is how long a name may stay free while somebody waits. Every engine looks at the
// line again within one TTL even if no notification reaches it.
func Idle(ttl time.Duration) time.Duration { return 2*ttl + 2*time.Second }

// ran returns the time in an interval, less what the process stood still.
func (d *disturbances) ran(client int, from, to Time) time.Duration {
	whole := time.Duration(to - from)
	for _, f := range d.byClient[client] { // by From; several goroutines may tell of the same time
		if f.Kind == Stall && f.From < to && f.To > from {
			whole -= time.Duration(min(f.To, to) - max(f.From, from))
			from = min(f.To, to)
		}
	}
	return whole
}

// A gap is a time in which a name was free.
type gap struct {
	interval
	length time.Duration
}

// longestGap returns the longest part of an interval that is not occupied.
func longestGap(occupied []interval, from, to Time, length func(from, to Time) time.Duration) (longest gap) {
	k, _ := slices.BinarySearchFunc(occupied, from, func(v interval, t Time) int { return cmp.Compare(v.to, t) })
	for at := from; at < to; k++ {
		end, next := to, to
		if k < len(occupied) && occupied[k].from < to {
			end, next = occupied[k].from, occupied[k].to
		}
		if end > at {
			if n := length(at, end); n > longest.length {
				longest = gap{interval{at, end}, n}
			}
		}
		at = max(next, at)
	}
	return longest
}

// trueRefusals checks that a try was refused only where somebody else may have held or
// waited. One to whose client something was done may have been in its own way: by a call
// that was delivered twice, or late.
func (d *disturbances) trueRefusals(j *judge, name string, attempts []int) {
	type until struct {
		to      Time
		attempt int
	}
	latest := make([][2]until, len(attempts)) // the two that are there longest, of those called before
	last := [2]until{{attempt: -1}, {attempt: -1}}
	for k, i := range attempts {
		a := &j.h.Attempts[i]
		u := until{max(a.Returned, d.presence(a).to), i}
		if u.to > last[0].to {
			last[0], last[1] = u, last[0]
		} else if u.to > last[1].to {
			last[1] = u
		}
		latest[k] = last
	}
	for _, i := range attempts {
		a := &j.h.Attempts[i]
		if !a.Try || a.Result != Busy || d.disturbed(a.Client, a.Called, a.Returned) {
			continue
		}
		j.v.Checked++
		n, _ := slices.BinarySearchFunc(attempts, a.Returned+1, func(g int, t Time) int { return cmp.Compare(j.h.Attempts[g].Called, t) })
		other := latest[n-1][0]
		if other.attempt == i {
			other = latest[n-1][1]
		}
		if other.attempt < 0 || other.to < a.Called {
			j.violated(name, a.Returned, fmt.Sprintf("client %d was refused at %v, and nobody held or waited since %v", a.Client, a.Returned, a.Called), i)
		}
	}
}
