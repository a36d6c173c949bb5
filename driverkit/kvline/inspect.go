package kvline

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Line returns the claims of one name.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	l, _, err := e.fetch(ctx, name)
	if err != nil || len(l) == 0 {
		return nil, err
	}
	now, err := e.clock(ctx, l)
	if err != nil {
		return nil, err
	}
	l.expire(now)
	until, err := e.sightAll(ctx, l)
	if err != nil {
		return nil, err
	}
	l = slices.DeleteFunc(l, func(c claim) bool { return c.bySession() && until[c.Session].IsZero() })
	l.grant(now)
	all := l.entries(name, now)
	for i, c := range l {
		if c.bySession() {
			all[i].Left = max(0, until[c.Session].Sub(now))
		}
	}
	return all, nil
}

// sightAll reads until when the sessions live by which claims of a line live; those that
// have expired are not in it.
func (e *Engine) sightAll(ctx context.Context, l line) (map[string]time.Time, error) {
	until := map[string]time.Time{}
	var ids []string
	for _, c := range l {
		if _, there := until[c.Session]; !there && c.bySession() {
			until[c.Session] = time.Time{}
			ids = append(ids, c.Session)
		}
	}
	all, errs := make([]time.Time, len(ids)), make([]error, len(ids))
	each(len(ids), func(i int) {
		x, expired, _, err := e.sight(ctx, ids[i])
		if errs[i] = err; !expired && !x.ended {
			all[i] = x.until
		}
	})
	for i, id := range ids {
		until[id] = all[i]
	}
	return until, driver.Join(errs...)
}

// List yields the claims of all names that begin with prefix.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		err := e.sessions.Begin(ctx)
		var names []string
		if err == nil {
			names, err = e.names(ctx, prefix)
		}
		for _, name := range names {
			var all []driver.Entry
			if all, err = e.Line(ctx, name); errors.Is(err, errForeign) {
				if !yield(driver.Entry{}, err) {
					return
				}
				err = nil
			}
			if err != nil {
				break
			}
			for _, x := range all {
				if !yield(x, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(driver.Entry{}, err)
		}
	}
}

func (e *Engine) names(ctx context.Context, prefix string) ([]string, error) {
	keys, err := e.store.Keys(ctx, linePrefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		if name, ok := decode(strings.TrimPrefix(key, linePrefix)); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Evict ends the claim that x shows.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.sessions.Begin(ctx); err != nil {
		return err
	}
	for marked := false; ; marked = true {
		var found claim
		_, _, err := e.update(ctx, x.Name, mode{}, func(l *line, now time.Time) error {
			i := l.find(x.ID)
			if i < 0 {
				return driver.ErrGone
			}
			found = (*l)[i]
			if is := found.entry(x.Name, now, now); is.Try != x.Try || is.Fence != x.Fence {
				return driver.ErrGone
			}
			if found.bySession() && !marked {
				return errUnmarked
			}
			l.remove(i)
			return nil
		})
		if !errors.Is(err, errUnmarked) {
			return err
		}
		if err := e.mark(ctx, found); err != nil {
			return err
		}
	}
}

// errUnmarked says that the session of a claim has to be told before the claim is removed:
// its beats do not read every line.
var errUnmarked = errors.New("its session was not told")
