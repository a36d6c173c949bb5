package driverkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Example is a whole engine, on a store that compares and swaps values and lets keys be
// watched: the line of a name is one value. What the store does is the engine's own; the
// rest is driverkit's. It is as short as it can be, so it has one floor, beats claim by
// claim, and uses names as keys; a store that others use too needs encoded ones.
func Example() {
	client := pawl.New(newKVEngine(newKVStore()))
	defer client.Close()
	lease, err := client.Mutex("jobs/42").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Name())
	lease.Unlock()
	// Output: held: jobs/42
}

// A kvEngine keeps each line of claims in one value of a store.
type kvEngine struct {
	kv       *kvStore
	sessions *driverkit.Sessions[*kvSession]
	watches  *driverkit.Subscriptions // by name
	waiters  driverkit.Waiters
	watchers driverkit.Watchers
}

func newKVEngine(kv *kvStore) *kvEngine {
	e := &kvEngine{kv: kv, sessions: driverkit.NewSessions[*kvSession]("kv")}
	e.watches = driverkit.NewSubscriptions(func(ctx context.Context, name string, up func(), message func(string)) error {
		return e.kv.watch(ctx, name, up, message)
	})
	return e
}

func (e *kvEngine) Features() driver.Features {
	return driver.Features{Queue: true, Push: true, Shared: true, Count: true, Fencing: driver.Volatile}
}

// update changes the line of a name in one atomic step. Where another change came first,
// the store refuses it untouched and change is called again. It returns the version of
// the line.
func (e *kvEngine) update(ctx context.Context, name string, change func(l *kvLine, now time.Time) error) (version uint64, err error) {
	for {
		text, before, err := e.kv.get(ctx, name)
		if err != nil {
			return 0, err
		}
		l, err := parseLine(text, before)
		if err != nil {
			return 0, fmt.Errorf("kv: the key of %q holds something else: %w", name, err)
		}
		now := e.kv.now()
		l.settle(now)
		if err := change(&l, now); err != nil {
			return 0, err
		}
		l.settle(now)
		after := []byte{}
		if len(l) > 0 { // a name without claims leaves nothing behind
			if after, err = json.Marshal(l); err != nil {
				return 0, err
			}
		}
		if string(after) == text {
			return before, nil
		}
		if version, err := e.kv.swap(ctx, name, string(after), before); version != 0 || err != nil {
			return version, err
		}
	}
}

// changed returns what to do with each value of a line: wake the claims whose turn has
// come or that are gone, and tell of departures.
func (e *kvEngine) changed(name string) func(text string) {
	var before kvLine
	return func(text string) {
		l, _ := parseLine(text, 0) // a value that is no line has no claims
		for _, id := range e.waiters.IDs(name) {
			if i := l.find(id); i < 0 || l[i].Held {
				e.waiters.Wake(id)
			}
		}
		if slices.ContainsFunc(before, func(c kvClaim) bool { return l.find(c.ID) < 0 }) {
			e.watchers.Notify(name)
		}
		before = l
	}
}

func (e *kvEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &kvSession{e: e, id: o.ID, ttl: o.TTL, claims: driverkit.NewClaims[struct{}]()}
	if err := e.sessions.Add(s.id, s); err != nil {
		return nil, err
	}
	return s, nil
}

func (e *kvEngine) Line(ctx context.Context, name string) (all []driver.Entry, err error) {
	_, err = e.update(ctx, name, func(l *kvLine, now time.Time) error {
		all = l.entries(now)
		return nil
	})
	return all, err
}

func (e *kvEngine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		names, err := e.kv.keys(ctx, prefix)
		for _, name := range names {
			var all []driver.Entry
			if all, err = e.Line(ctx, name); err != nil {
				break
			}
			for _, x := range all {
				if !yield(x, nil) {
					return
				}
			}
		}
		if err = driver.Join(err, ctx.Err()); err != nil {
			yield(driver.Entry{}, err)
		}
	}
}

func (e *kvEngine) Evict(ctx context.Context, x driver.Entry) error {
	_, err := e.update(ctx, x.Name, func(l *kvLine, now time.Time) error {
		i := l.find(x.ID)
		if i < 0 {
			return driver.ErrGone
		}
		if is := l.entries(now)[i]; is.Try != x.Try || is.Fence != x.Fence || is.Held != x.Held {
			return driver.ErrGone
		}
		l.remove(i)
		return nil
	})
	return err
}

func (e *kvEngine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	sub := e.watches.Open(name, e.changed(name))
	if sub == nil {
		return nil, driver.ErrGone
	}
	if err := sub.WaitUp(ctx); err != nil {
		sub.Release(0)
		return nil, err
	}
	context.AfterFunc(ctx, func() { sub.Release(0) })
	return e.watchers.Watch(ctx, name, 0), nil
}

func (e *kvEngine) Close() error {
	err := e.sessions.Close()
	e.watches.Close()
	return err
}

// A kvSession is one client's claims. Each has an expiry of its own.
type kvSession struct {
	e      *kvEngine
	id     string
	ttl    time.Duration
	claims *driverkit.Claims[struct{}]
}

func (s *kvSession) TTL() time.Duration     { return s.ttl }
func (s *kvSession) Lost() <-chan struct{}  { return nil }
func (s *kvSession) Ended() <-chan struct{} { return s.claims.Ended() }

func (s *kvSession) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	if _, _, err := s.claims.Add(ctx, c, struct{}{}); err != nil { // before it is sent
		return st, err
	}
	version, err := s.e.update(ctx, c.Name, func(l *kvLine, now time.Time) error {
		i := l.find(c.ID)
		switch {
		case i >= 0 && (*l)[i].Try > c.Try: // delivered late
			st = driver.Standing{Gone: true}
			return nil
		case i >= 0 && (*l)[i].Try < c.Try:
			l.remove(i)
			l.settle(now)
			i = -1
		}
		if i < 0 {
			for _, o := range *l {
				if !c.Exclusive() && !o.Exclusive() && o.Limit != c.Limit {
					return driver.ErrLimit
				}
			}
			*l = append(*l, kvClaim{Entry: driver.Entry{Claim: c, Session: s.id}, From: now, Until: now.Add(s.ttl)})
			l.settle(now)
			i = len(*l) - 1
		}
		(*l)[i].Until = now.Add(s.ttl)
		st = l.standing(i, now)
		st.Valid = s.ttl
		if !st.Held && !c.Queue {
			l.remove(i)
			st.Valid = 0
		}
		return nil
	})
	if st.Held && st.Token == 0 {
		st.Token = version
	}
	switch {
	case err != nil && !errors.Is(err, driver.ErrLimit): // it may be there
	case st.Valid == 0 && !st.Gone:
		s.claims.End(c)
	case s.claims.Closed(): // Close may have looked before it was there
		_ = s.leave(ctx, c) // what stays expires
		return driver.Standing{}, driver.ErrGone
	}
	return st, err
}

func (s *kvSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	p := s.claims.Find(c.ID, c.Try)
	if p == nil {
		return driver.Standing{Gone: true}, nil
	}
	s.e.waiters.Add(c, &p.Waiter)
	defer s.e.waiters.Remove(c, &p.Waiter)
	sub := s.e.watches.Open(c.Name, s.e.changed(c.Name))
	if sub == nil {
		return driver.Standing{}, driver.ErrGone
	}
	defer sub.Release(10 * time.Second)
	return driverkit.Await(ctx, s, &p.Waiter, sub, c, last)
}

func (s *kvSession) Look(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	_, err = s.e.update(ctx, c.Name, func(l *kvLine, now time.Time) error {
		st = driver.Standing{Gone: true}
		if i := l.find(c.ID); i >= 0 && (*l)[i].Try == c.Try {
			st = l.standing(i, now)
		}
		return nil
	})
	return st, err
}

func (s *kvSession) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

func (s *kvSession) leave(ctx context.Context, c driver.Claim) error {
	_, err := s.e.update(ctx, c.Name, func(l *kvLine, _ time.Time) error {
		i := l.find(c.ID)
		if i < 0 || (*l)[i].Try > c.Try {
			return driver.ErrGone
		}
		l.remove(i)
		return nil
	})
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.claims.End(c)
	}
	return err
}

func (s *kvSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	var errs []error
	for i, c := range live {
		var st driver.Standing
		_, err := s.e.update(ctx, c.Name, func(l *kvLine, now time.Time) error {
			st = driver.Standing{Gone: true}
			if at := l.find(c.ID); at >= 0 && (*l)[at].Try == c.Try {
				(*l)[at].Until = now.Add(s.ttl)
				st = l.standing(at, now)
				st.Valid = s.ttl
			}
			return nil
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if out[i] = st; st.Gone {
			s.claims.End(c)
		}
	}
	return driver.Join(errs...)
}

func (s *kvSession) Close(ctx context.Context) error {
	s.e.sessions.Remove(s.id, s)
	var errs []error
	for _, c := range s.claims.Close() {
		if err := s.leave(ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
			errs = append(errs, err)
		}
	}
	return driver.Join(errs...)
}
