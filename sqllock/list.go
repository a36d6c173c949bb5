package sqllock

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A page of a list is read at once and shown after, so that a slow reader of
// the list holds nothing in the store.
const listPage = 500

type listed struct {
	key string
	now int64
	spot
}

// List yields the claims on names that begin with prefix. Each page is of one
// moment; claims that come or go between two pages may be missed.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		a := &Args{}
		a.text[Name] = e.key(prefix)
		a.set(Token, -1)
		a.set(Count, listPage)
		for {
			page, err := e.claims(ctx, e.q.list, a)
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, l := range page {
				if !strings.HasPrefix(l.key, e.key(prefix)) {
					return // keys are in order of their bytes: nothing further on begins with it
				}
				if l.id == "" { // a free name, that only says how far the page went
					continue
				}
				if !yield(l.entry(e.name(l.key), l.now), nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last := page[len(page)-1]
			a.text[Name] = last.key
			a.set(Token, last.token)
		}
	}
}

// Line returns the claims of one name, as they are at one moment.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	a := &Args{}
	a.text[Name] = e.key(name)
	all, err := e.claims(ctx, e.q.line, a)
	if err != nil {
		return nil, err
	}
	line := make([]driver.Entry, len(all))
	for i, l := range all {
		line[i] = l.entry(name, l.now)
	}
	return line, nil
}

// claims reads what list and line show.
func (e *Engine) claims(ctx context.Context, q *Query, a *Args) (all []listed, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = e.ask(ctx, &Step{Query: q, Args: a, Row: func(r Row) error {
		var l listed
		err := r.Scan(&l.now, &l.key, &l.id, &l.try, &l.token, &l.session, &l.need, &l.limit,
			&l.queue, &l.note, &l.held, &l.since, &l.until)
		all = append(all, l)
		return err
	}})
	return all, err
}

// askPatience is how long a question may take. A database that was cut off without a
// word is silent for as long as TCP has patience, which is minutes.
const askPatience = 10 * time.Second

// ask reads with patience.
func (e *Engine) ask(ctx context.Context, s *Step) error {
	call, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	err := e.d.Store.Read(call, s)
	if err != nil && call.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer for %v", driver.ErrUnreachable, askPatience)
	}
	return err
}

// Evict breaks exactly the claim that x shows and lets in whoever fits then.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := e.args(x.Claim)
	a.set(Token, int64(x.Fence))
	if x.Held {
		a.set(Held, 1)
	}
	q := e.q
	var told []string
	steps := flight(a, &told, q.lock, q.expire, q.evictX, q.evict, q.prune,
		q.tally, q.front, q.promote, q.vacate, q.admit, q.count)
	found := false
	for i := range steps {
		if n := steps[i].Query.Name; n == "evict" || n == "evict_x" {
			steps[i].Row = func(Row) error {
				found = true
				told = append(told, x.ID)
				return nil
			}
		}
	}
	if err := e.fly(ctx, &Flight{Steps: steps}, &told); err != nil {
		return err
	}
	if !found {
		return driver.ErrGone
	}
	return nil
}
