package kvline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// prolong prolongs the session, or begins it. It returns ErrGone if the session has ended.
func (s *session) prolong(ctx context.Context) error {
	return s.write(ctx, presence{TTL: s.ttl}.write())
}

// end ends the session.
func (s *session) end(ctx context.Context) error {
	if err := s.write(ctx, nil); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// write writes the session's value over its own last write; nil deletes it, and so does
// a beat that comes too late: others may have taken the session for dead already, and it
// does not come back.
func (s *session) write(ctx context.Context, data []byte) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.writing }()
	begun, err := s.e.store.Now(ctx, time.Hour)
	if err != nil { // such as a store that cannot be used
		return err
	}
	late := data != nil && s.expired(begun)
	v, keep := Value{Data: data}, presence{TTL: s.ttl}.keep()
	if late || data == nil {
		v.Data, keep = nil, 0
	}
	for conflicts := 0; ; conflicts++ {
		sent := present()
		now, err := s.e.store.Now(ctx, time.Hour)
		if err != nil {
			return err
		}
		v.Revision = s.lastRevision()
		revision, err := s.e.store.Put(ctx, presenceKey(s.id), v, keep)
		switch {
		case err == nil:
			s.written(revision, sent, now.Add(s.ttl), v.Data == nil)
			s.e.seen.set(s.id, sighting{until: now.Add(s.ttl), ended: v.Data == nil})
			if late {
				return driver.ErrGone
			}
			return nil
		case !errors.Is(err, ErrConflict):
			return err
		}
		if err := s.reread(ctx); err != nil {
			return err
		}
		pauseAfter(ctx, conflicts)
	}
}

// reread reads the session's value after another write came first: one of its own that was
// not answered, that of an operator, or one that ended it.
func (s *session) reread(ctx context.Context) error {
	is, v, err := s.e.readPresence(ctx, s.id)
	if err == nil && v.Data == nil && v.Revision == 0 && s.lastRevision() != 0 { // is there none, or was it an old value?
		v.Revision, err = s.e.store.Put(ctx, presenceKey(s.id), Value{}, 0)
		if errors.Is(err, ErrConflict) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	for _, c := range is.Evicted {
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.suspect = true })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.gone = v.Revision, v.Data == nil && v.Revision != 0
	if s.gone {
		return driver.ErrGone
	}
	return nil
}

func (s *session) written(revision uint64, sent moment, until time.Time, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.renewed, s.until, s.gone = revision, sent, until, gone
}

// expired reports whether the last beat that was answered was a TTL ago, by the store's
// clock.
func (s *session) expired(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != 0 && !s.until.After(now)
}

// lastRevision returns the revision of the value as the session wrote or read it last; 0: it
// was never written.
func (s *session) lastRevision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}
