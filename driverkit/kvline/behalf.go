package kvline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// Where many come to a line, each of them would read and write all of it again and again,
// and be in the way of the one that gives the name back. So they ask an engine whose claim
// holds the name, or soon will, to enter theirs. It does so with the write with which it
// gives the name back, and passes on what is left to the next holder; or with writes of its
// own, if that lasts. A write enters one claim, since its revision is the claim's token.

// Where many give up at once, they ask in the same way to be taken out, all by one write.

// asked takes what others ask for.
func (e *Engine) asked(n *notice) {
	if e.asks.add(n) {
		_ = e.sessions.Go(func(ctx context.Context) { e.serveAsked(ctx, n.Name) })
	}
}

// serveAsked does what is asked for of a name after a while, or passes it on to who holds it.
func (e *Engine) serveAsked(ctx context.Context, name string) {
	begun, after := time.Now(), time.Duration(0)
	e.asks.with(name, func(q *queue) { after = q.after })
	for pause := min(after, askTogether) / 2; driverkit.Pause(ctx, pause); {
		now, err := e.store.Now(ctx, time.Hour)
		if err == nil {
			e.tellAsked(name, now)
		}
		if e.asks.ended(name) {
			return
		}
		leaving := 0
		e.asks.with(name, func(q *queue) { leaving, after = q.leaving, q.after })
		if left := after - time.Since(begun); err != nil || left > 0 || leaving > 0 {
			pause = max(min(left, after/2), askTogether/2)
			continue
		}
		l, now, err := e.update(ctx, name, mode{trust: true, judged: true, admits: true}, func(l *line, _ time.Time) error {
			if len(e.asks.leavers(name)) == 0 && e.helper(*l, 0) != "" {
				return errAsk
			}
			return nil
		})
		if pause = 0; errors.Is(err, errAsk) {
			pause = askTogether
			e.passOn(name, l, now)
		} else if err != nil {
			pause = askTogether
			e.asks.served(name, nil, e.asks.leavers(name)) // who hears nothing leaves by itself
		}
	}
}

// passOn passes what is still to be entered to the engine that holds the name.
func (e *Engine) passOn(name string, l line, now time.Time) {
	to, n := e.helper(l, 0), &notice{Name: name}
	if e.asks.pass(n, e.asks.of(name, now)); to == "" || len(n.Enter) == 0 {
		return
	}
	e.asks.served(name, n.Enter, nil)
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
			notices[c.Engine] = &notice{Name: name, From: e.address}
		}
		notices[c.Engine].Asked = append(notices[c.Engine].Asked, place{Session: c.Session, ID: c.ID, Try: c.Try})
	}
	for engine, n := range notices {
		e.send(engine, n)
	}
}
