package kvline

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// requests are the claims that other engines ask this one to enter, or to take out of a line.
type requests struct {
	mu     sync.Mutex // guards what follows
	byName map[string]*queue
}

// A queue is the claims that are to be entered into one line, or taken out of it. There is one
// while a task of the engine sees to them.
type queue struct {
	all     line
	leavers []place
	after   time.Duration // after which time they are entered by writes of their own
	limit   time.Duration // for how long those who ask wait in silence
	quiet   time.Duration // for how long those who ask had heard nothing
	since   moment        // when that was so
	leaving int           // calls of this engine that leave the line
}

// asked reports whether who has asked for a claim may still wait for it.
func (c *claim) asked(now time.Time) bool {
	return now.Sub(time.Unix(0, c.Since)) < maxLate
}

// with calls f with the queue of a name, if there is one.
func (r *requests) with(name string, f func(q *queue)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.byName[name]; q != nil {
		f(q)
	}
}

// add adds the claims of a notice, and reports whether a task has to be started for them.
func (r *requests) add(n *notice) (start bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]*queue{}
	}
	q := r.byName[n.Name]
	if start = q == nil; start {
		q = &queue{after: min(n.After, askLimit/2), limit: n.Limit, quiet: n.Quiet, since: present()}
		r.byName[n.Name] = q
	}
	q.after, q.limit = min(q.after, n.After), min(q.limit, n.Limit)
	q.all, q.leavers = append(q.all, n.Enter...), append(q.leavers, n.Leave...)
	left := tries(n.Leave)
	q.all = slices.DeleteFunc(q.all, func(c claim) bool { return c.Try <= left[c.ID] })
	return start
}

// of returns the claims that are to be entered.
func (r *requests) of(name string, now time.Time) (cs line) {
	r.with(name, func(q *queue) {
		q.all = slices.DeleteFunc(q.all, func(c claim) bool { return !c.asked(now) })
		cs = slices.Clone(q.all)
	})
	return cs
}

// leavers returns the claims that are to be taken out.
func (r *requests) leavers(name string) (ps []place) {
	r.with(name, func(q *queue) { ps = slices.Clone(q.leavers) })
	return ps
}

// served removes what was done. Claims are told by their ID and try.
func (r *requests) served(name string, entered line, left []place) {
	if len(entered)+len(left) == 0 {
		return
	}
	in, out := entered.places(), tries(left)
	r.with(name, func(q *queue) {
		q.all = slices.DeleteFunc(q.all, func(c claim) bool { return in.of(&c) >= 0 })
		q.leavers = slices.DeleteFunc(q.leavers, func(p place) bool { return p.Try <= out[p.ID] })
	})
}

// tries returns the highest try of each ID.
func tries(ps []place) map[string]int {
	all := make(map[string]int, len(ps))
	for _, p := range ps {
		all[p.ID] = max(all[p.ID], p.Try)
	}
	return all
}

// dismiss takes claims out of the line.
func (l *line) dismiss(ps []place) {
	if which := tries(ps); len(which) > 0 {
		*l = slices.DeleteFunc(*l, func(c claim) bool { return c.Try <= which[c.ID] })
	}
}

// passMost is how many claims go into a notice, which a store may send up to some length only.
const passMost = 128

// pass puts the first of the claims that another engine is to enter into a notice.
func (r *requests) pass(n *notice, cs line) {
	cs = cs[:min(len(cs), passMost)]
	r.with(n.Name, func(q *queue) { n.Enter, n.After, n.Limit, n.Quiet = cs, q.limit/2, q.limit, q.quiet+q.since.age() })
}

// leave says that a call leaves the line, until done is called. Such a call enters a claim
// too, and another write would only be in its way.
func (r *requests) leave(name string) (done func()) {
	done = func() {}
	r.with(name, func(q *queue) {
		q.leaving++
		done = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			q.leaving--
		}
	})
	return done
}

// ended ends the task of a name if nothing is left to be done.
func (r *requests) ended(name string) (none bool) {
	r.with(name, func(q *queue) {
		if none = len(q.all)+len(q.leavers) == 0; none {
			delete(r.byName, name)
		}
	})
	return none
}

// admit adds the first of the claims that are to be entered at the end, and returns the rest.
// Those before it are done too: they are there already, or are refused, which they learn when
// they come themselves.
func (l *line) admit(cs line) (done, rest line) {
	for i, c := range cs {
		if l.find(c.ID) < 0 && !l.refuses(c.Need, c.Limit) {
			if slices.ContainsFunc(*l, func(o claim) bool { return o.Token == 0 }) {
				return cs[:i:i], cs[i:]
			}
			*l = append(*l, c)
		}
	}
	return cs, nil
}

// withdrawn are claims that other engines were asked to enter, and that have left: they may be
// entered all the same.
type withdrawn struct {
	mu  sync.Mutex // guards all
	all []left
}

type left struct {
	claim driver.Claim
	at    moment
}

func (w *withdrawn) add(c driver.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, left{c, present()})
}

// lately returns those that may still be entered.
func (w *withdrawn) lately() (cs []driver.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(l left) bool { return l.at.age() > 2*maxLate })
	for _, l := range w.all {
		cs = append(cs, l.claim)
	}
	return cs
}
