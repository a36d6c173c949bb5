package etcdlock

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// session is one lease and the claims under it. They live and die with it, so
// that neither Enter nor a grant promises anything of its own.
type session struct {
	e     *Engine
	id    string
	lease clientv3.LeaseID
	ttl   time.Duration // as granted

	begun  context.Context // of what outlives a call; ends when Close begins, also the engine's
	finish context.CancelFunc
	pulse  pulse

	mu       sync.Mutex       // guards what follows, and the spots
	spots    map[string]*spot // by claim ID
	slots    map[slot]*use    // in use
	met      map[string]bool  // names on which others were met when last entered
	doubtful bool             // an Enter was not answered, and may land at any time
	closed   bool
}

var _ driver.Multi = (*session)(nil)

func (s *session) TTL() time.Duration { return s.ttl }

// Lost is nil: that a lease has ended is learnt by the beat.
func (s *session) Lost() <-chan struct{} { return nil }

// alive says whether a call may go out.
func (s *session) alive(ctx context.Context) error {
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

// Close revokes the lease. The cluster deletes its keys in the same step, and
// refuses an Enter that arrives later, since its lease is not there.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.finish()
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.e.client.Revoke(ctx, s.lease)
	if err = classify(ctx, err); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()
	return nil
}
