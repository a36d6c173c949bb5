package kvline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// Where many come to a line, each of them would read and write all of it again and again,
// and be in the way of the one that gives the name back. So they ask an engine whose claim
// holds the name, or soon will, to enter theirs. It does so with the write with which it
// gives the name back, and passes on what is left to the next holder; or with writes of its
// own, if that lasts. A write enters one claim, since its revision is the claim's token.

// requests are the claims that other engines ask this one to enter.
type requests struct {
	mu     sync.Mutex // guards what follows
	byName map[string]*queue
}

// A queue is the claims that are to be entered into one line. There is one while a task of
// the engine sees to them.
type queue struct {
	all     line
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
	q.limit = min(q.limit, n.Limit)
	q.all = append(q.all, n.Enter...)
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

// drop removes claims, which are told by their ID and try.
func (r *requests) drop(name string, cs ...claim) {
	which := line(cs).places()
	r.with(name, func(q *queue) {
		q.all = slices.DeleteFunc(q.all, func(c claim) bool { return which.of(&c) >= 0 })
	})
}

// pass puts claims that another engine is to enter into a notice.
func (r *requests) pass(n *notice, cs line) {
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

// ended ends the task of a name if nothing is left to be entered.
func (r *requests) ended(name string) (none bool) {
	r.with(name, func(q *queue) {
		if none = len(q.all) == 0; none {
			delete(r.byName, name)
		}
	})
	return none
}

// asked takes claims that others ask to be entered.
func (e *Engine) asked(n *notice) {
	if e.asks.add(n) {
		_ = e.sessions.Go(func(ctx context.Context) { e.enterAsked(ctx, n.Name) })
	}
}

// enterAsked enters the claims of a name after a while, or passes them on to who holds it.
func (e *Engine) enterAsked(ctx context.Context, name string) {
	begun, after := time.Now(), time.Duration(0)
	e.asks.with(name, func(q *queue) { after = q.after })
	for pause := after / 2; driverkit.Pause(ctx, pause); {
		now, err := e.store.Now(ctx, time.Hour)
		if err == nil {
			e.tellAsked(name, now)
		}
		if e.asks.ended(name) {
			return
		}
		leaving := 0
		e.asks.with(name, func(q *queue) { leaving = q.leaving })
		if left := after - time.Since(begun); err != nil || left > 0 || leaving > 0 {
			pause = max(min(left, after/2), askTogether/2)
			continue
		}
		l, now, err := e.update(ctx, name, mode{trust: true, judged: true, admits: true}, func(l *line, _ time.Time) error {
			if e.helper(*l, 0) != "" {
				return errAsk
			}
			return nil
		})
		if pause = 0; err != nil {
			pause = askTogether
		}
		if errors.Is(err, errAsk) {
			e.passOn(name, l, now)
		}
	}
}

// passOn passes what is still to be entered to the engine that holds the name.
func (e *Engine) passOn(name string, l line, now time.Time) {
	to, n := e.helper(l, 0), &notice{Name: name}
	if e.asks.pass(n, e.asks.of(name, now)); to == "" || len(n.Enter) == 0 {
		return
	}
	e.asks.drop(name, n.Enter...)
	e.send(to, n)
}

// tellAsked tells those who ask, from time to time, that they are not forgotten.
func (e *Engine) tellAsked(name string, now time.Time) {
	due := false
	e.asks.with(name, func(q *queue) {
		if due = q.quiet+q.since.age() >= q.limit/4; due {
			q.quiet, q.since = 0, present()
		}
	})
	if !due {
		return
	}
	notices := map[string]*notice{}
	for _, c := range e.asks.of(name, now) {
		if notices[c.Engine] == nil {
			notices[c.Engine] = &notice{Name: name}
		}
		notices[c.Engine].Asked = append(notices[c.Engine].Asked, place{Session: c.Session, ID: c.ID, Try: c.Try})
	}
	for engine, n := range notices {
		e.send(engine, n)
	}
}

// helper returns the engine of a claim in line if that can be asked; "" if not.
func (e *Engine) helper(l line, i int) string {
	if i >= len(l) || l[i].Engine == e.address || !strings.HasPrefix(l[i].Engine, helps) || !e.hears() {
		return ""
	}
	return l[i].Engine
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
