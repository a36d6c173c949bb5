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
	l.grant(now)
	return l.entries(name, now), nil
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
	_, _, err := e.update(ctx, x.Name, false, func(l *line, now time.Time) error {
		i := l.find(x.ID)
		if i < 0 {
			return driver.ErrGone
		}
		if is := (*l)[i].entry(x.Name, now); is.Try != x.Try || is.Fence != x.Fence {
			return driver.ErrGone
		}
		l.remove(i)
		return nil
	})
	return err
}
