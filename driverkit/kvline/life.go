package kvline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// write writes the session's value over its own last write: data, or nothing to delete it.
// It returns ErrGone if the session has ended.
func (s *session) write(ctx context.Context, data []byte) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.writing }()
	p := presence{TTL: s.ttl}
	over := data != nil && s.overdue()
	if over { // it may be taken for dead already, and does not come back
		p.Ended = true
		data = p.write()
	}
	for conflicts := 0; ; conflicts++ {
		sent := present()
		now, err := s.e.store.Now(ctx, time.Hour)
		if err != nil { // such as a store that cannot be used
			return err
		}
		s.mu.Lock()
		v := Value{Data: data, Revision: s.revision}
		s.mu.Unlock()
		keep := p.keep()
		if data == nil {
			keep = 0
		}
		revision, err := s.e.store.Put(ctx, presenceKey(s.id), v, keep)
		if err == nil {
			s.written(revision, sent, over)
			s.e.seen.set(s.id, sighting{until: now.Add(s.ttl), ended: p.Ended || data == nil})
			if over {
				return driver.ErrGone
			}
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if err := s.reread(ctx, data == nil); err != nil {
			return err
		}
		pauseAfter(ctx, conflicts)
	}
}

// reread reads the session's value after another write came first: one of its own that was
// not answered, that of an operator, or one that ended it.
func (s *session) reread(ctx context.Context, ending bool) error {
	is, v, err := s.e.readPresence(ctx, s.id)
	if err != nil {
		return err
	}
	switch {
	case v.Data != nil || !s.opened():
	case ending:
		is.Ended = true
	default: // unless that is an old value
		v.Revision, err = s.e.store.Put(ctx, presenceKey(s.id), Value{Data: presence{TTL: s.ttl, Ended: true}.write(), Revision: v.Revision}, maxLate)
		if errors.Is(err, ErrConflict) {
			return nil
		}
		if err != nil {
			return err
		}
		is.Ended = true
	}
	for _, c := range is.Evicted {
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.suspect = true })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.gone = v.Revision, is.Ended
	if is.Ended {
		return driver.ErrGone
	}
	return nil
}

func (s *session) written(revision uint64, sent moment, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.renewed, s.gone = revision, sent, over
}

// overdue reports whether the last beat was a TTL ago.
func (s *session) overdue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != 0 && s.renewed.age() >= s.ttl
}

// opened reports whether the session's value was ever written.
func (s *session) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != 0
}

// prolong prolongs the session, or begins it.
func (s *session) prolong(ctx context.Context) error {
	return s.write(ctx, presence{TTL: s.ttl}.write())
}

// end ends the session.
func (s *session) end(ctx context.Context) error {
	if err := s.write(ctx, nil); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
