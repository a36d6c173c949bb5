package etcdlock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// session is one lease and the claims under it. They live and die with it, so that
// neither Enter nor a grant promises any time of its own.
type session struct {
	id      string
	lease   *etcdstore.Lease
	keys    keyspace
	holders *holderCache
	onClose func(id string, s *session) // called when the lease has ended

	mu         sync.Mutex             // guards what follows, and the claims
	claims     map[string]*claimState // by claim ID
	slots      map[slot]int           // in use, and by how many: claims, deletes without an answer, orphans
	late       map[slot]int           // Enters that had no answer, and may arrive as long as the lease lives; nil: too many to remember
	orphaned   []slot                 // in use by an orphan until a beat has looked for orphans
	orphanSeen bool                   // a key of no claim was seen or may be there, and no beat has looked for orphans since
	forgotten  bool                   // a claim that was entered has ended
	closed     bool
}

var (
	_ driver.Multi  = (*session)(nil)
	_ driver.Leaver = (*session)(nil)
)

func (s *session) TTL() time.Duration { return s.lease.TTL }

// Lost is nil: only a beat learns that a lease has ended.
func (s *session) Lost() <-chan struct{} { return nil }

// ready reports why no call may be sent.
func (s *session) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	return nil
}

// Close revokes the lease. The cluster deletes its keys in the same step, and refuses
// an Enter that arrives later, because its lease is gone.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if err := s.lease.Close(ctx); err != nil {
		return err
	}
	s.onClose(s.id, s)
	return nil
}
