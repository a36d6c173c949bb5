package redislock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// bare is the engine for servers that forbid scripts. All it has is the plain
// recipe, done with commands that compare.
type bare struct {
	c    Client
	o    options
	keys layout
	bad  error

	policy   *policy
	checking chan struct{} // has room while nobody checks the server
	cmp      *comparer     // nil until checked; only for whoever checks

	mu       sync.Mutex // guards what follows
	sessions map[*bareSession]struct{}
	closed   bool
}

func newBare(c Client, o options, keys layout, bad error) *bare {
	return &bare{c: c, o: o, keys: keys, bad: bad, policy: newPolicy(c, o), checking: make(chan struct{}, 1), sessions: map[*bareSession]struct{}{}}
}

// Features reports that the plain recipe has a hold and nothing else.
func (e *bare) Features() driver.Features { return driver.Features{} }

func (e *bare) ready(ctx context.Context) (*comparer, error) {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return nil, err
	}
	select {
	case e.checking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.checking }()
	if err := e.policy.fine(ctx); err != nil {
		return nil, err
	}
	if e.cmp != nil {
		return e.cmp, nil
	}
	found, err := probe(ctx, e.c, e.keys)
	e.cmp = found
	return found, err
}

func (e *bare) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	compare, err := e.ready(ctx)
	if err != nil {
		return nil, err
	}
	ttl := wholeMillis(o.TTL)
	millis := strconv.FormatInt(ttl.Milliseconds(), 10)
	s := &bareSession{
		e: e, cmp: compare, ttl: ttl, millis: millis, tail: " " + word(o.ID) + " " + millis + " 0 ",
		done: make(chan struct{}), claims: map[string]driver.Claim{},
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	e.sessions[s] = struct{}{}
	return s, nil
}

// List yields the holds on names that begin with prefix.
func (e *bare) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := cmp.Or(ctx.Err(), e.bad); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		names, err := e.names(ctx, prefix)
		if err != nil {
			yield(driver.Entry{}, fault(err))
			return
		}
		for page := range slices.Chunk(names, listPage) {
			if !e.listNames(ctx, page, yield) {
				return
			}
		}
	}
}

func (e *bare) names(ctx context.Context, prefix string) (names []string, err error) {
	pattern := glob(e.keys.prefix+prefix) + "*"
	err = e.c.Scan(ctx, pattern, func(keys []string) error {
		for _, key := range keys {
			if name, ok := e.keys.nameOf(key); ok {
				names = append(names, name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

func (e *bare) listNames(ctx context.Context, names []string, yield func(driver.Entry, error) bool) bool {
	calls := make([]Command, 0, 2*len(names))
	for _, name := range names {
		key := e.keys.hold(name)
		calls = append(calls, Command{key, []string{"GET", key}}, Command{key, []string{"PTTL", key}})
	}
	out := make([]Answer, len(calls))
	e.c.Each(ctx, calls, out)
	for i, name := range names {
		value, left := out[2*i], out[2*i+1]
		switch {
		case code(value.Err) == "WRONGTYPE", value.Err == nil && value.Null:
			continue
		case value.Err != nil || left.Err != nil:
			yield(driver.Entry{}, fault(cmp.Or(value.Err, left.Err)))
			return false
		}
		if !yield(holds(name, value.Text, millis(left.Int)), nil) {
			return false
		}
	}
	return true
}

// Evict breaks exactly the hold that x shows.
func (e *bare) Evict(ctx context.Context, x driver.Entry) error {
	compare, err := e.ready(ctx)
	if err != nil {
		return err
	}
	key := e.keys.hold(x.Name)
	r, err := e.c.Do(ctx, key, []string{"GET", key})
	if err != nil {
		return fault(err)
	}
	if r.Null {
		return driver.ErrGone
	}
	if h := holds(x.Name, r.Text, 0); h.ID != x.ID || h.Try != x.Try || h.Fence != x.Fence || h.Foreign != x.Foreign || !x.Held {
		return driver.ErrGone
	}
	return e.remove(ctx, compare, key, r.Text)
}

// remove deletes a key that still has a value, or answers ErrGone.
func (e *bare) remove(ctx context.Context, compare *comparer, key, value string) error {
	r, err := e.c.Do(ctx, key, compare.remove(key, value))
	if err != nil {
		return fault(err)
	}
	if r.Int <= 0 {
		return driver.ErrGone
	}
	return nil
}

// Close ends the sessions that are still open with their holds.
func (e *bare) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	open := make([]*bareSession, 0, len(e.sessions))
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close(ctx))
	}
	e.policy.close()
	return driver.Join(append(errs, e.c.Close())...)
}

// wrongKey is faultAt for an engine without scripts.
func (e *bare) wrongKey(name string, err error) error {
	if code(err) == "WRONGTYPE" {
		return fmt.Errorf("redislock: key %q holds something that is not a lock: %w", e.keys.hold(name), err)
	}
	return fault(err)
}

// Line returns the claims of one name.
func (e *bare) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := cmp.Or(ctx.Err(), e.bad); err != nil {
		return nil, err
	}
	return gather(func(yield func(driver.Entry, error) bool) { e.listNames(ctx, []string{name}, yield) })
}
