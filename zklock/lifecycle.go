package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// closeTimeout bounds the last attempts to end claims.
const closeTimeout = 2 * time.Second

// attach binds s to the connection's present ZooKeeper session and registers it.
func (s *session) attach(ctx context.Context) error {
	zs, err := s.conn.Present()
	if err != nil {
		return err
	}
	s.zs, s.ttl = zs, zs.TTL
	s.ctx, s.lose = context.WithCancel(zs.Context())
	if !s.ownConn {
		// The earlier writes of the user's connection promise nothing from now on.
		if err := s.barrier(ctx); err != nil {
			s.lose()
			return err
		}
	}
	s.mu.Lock() // Close begins when the session is complete
	defer s.mu.Unlock()
	if err := s.e.sessions.Add(s.id, s); err != nil {
		s.lose()
		return err
	}
	s.evictNode = s.e.useEvictNode(zs)
	s.expiryTimer = time.AfterFunc(s.ttl, s.expire)
	return nil
}

// expire ends a session whose TTL has passed without a beat: the library keeps its
// ZooKeeper session alive with pings as long as the process lives.
func (s *session) expire() {
	_ = s.e.sessions.Go(func(ctx context.Context) { // a closed engine has ended the session
		s.lose()
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		_ = s.Close(ctx) // what remains ends with the ZooKeeper session, or by removeClaims
	})
}

// Close ends the session and whatever it still has in line. Only the first call reports
// the error.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		s.startClose()
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		return zkstore.ContextError(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.closeErr
	s.closeErr = nil
	return err
}

// startClose begins to end the session.
func (s *session) startClose() {
	s.expiryTimer.Stop()
	s.lose()
	s.e.dropEvictNode(s.evictNode)
	// Engine.Close finds the session, and waits for its end, or waits for the goroutine.
	if s.e.sessions.Go(s.finishClose) != nil { // it has waited in vain
		s.finishClose(s.e.ctx)
	}
	s.e.sessions.Remove(s.id, s)
}

// finishClose ends what the session has in line.
func (s *session) finishClose(context.Context) {
	var err error
	if !s.ownConn {
		if err = s.removeClaims(); err != nil {
			s.e.mu.Lock()
			s.e.leftovers = append(s.e.leftovers, err)
			s.e.mu.Unlock()
		}
	} else if !s.conn.Close() {
		err = zkstore.Unreachable(errors.New("the servers did not confirm the end of the session"))
	}
	s.mu.Lock()
	s.closeErr = err
	s.mu.Unlock()
	close(s.ended)
}

// removeClaims ends the claims of a session on the user's connection, whose ZooKeeper
// session continues. Where the servers cannot be reached it waits until they can, the
// ZooKeeper session ends, or the engine is closed. Where they refuse it gives up after two
// TTLs.
func (s *session) removeClaims() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(s.e.ctx, func() { // Engine.Close has begun: a last attempt
		last, done := context.WithTimeout(context.Background(), closeTimeout)
		context.AfterFunc(last, func() { done(); cancel() })
	})
	defer stop()
	for begun := driverkit.Now(); ; {
		s.mu.Lock()
		var rest []*claimState
		for _, cs := range s.claims {
			rest = append(rest, cs)
		}
		s.mu.Unlock()
		err := forEach(ctx, len(rest), func(ctx context.Context, i int) error { return s.removeClaim(ctx, rest[i]) })
		if err == nil {
			err = s.removeEvictNode(ctx)
		}
		if err == nil || s.zs.Ended() {
			return nil
		}
		if ctx.Err() != nil {
			return zkstore.Unreachable(err)
		}
		if !errors.Is(err, driver.ErrUnreachable) && driverkit.Now().Sub(begun) > 2*s.ttl {
			return err
		}
		s.zs.WaitRetry(ctx)
	}
}

// removeClaim ends one claim of a session that has ended, once its Enter has returned.
func (s *session) removeClaim(ctx context.Context, cs *claimState) error {
	s.mu.Lock()
	entering := cs.entering
	s.mu.Unlock()
	if entering != nil {
		select {
		case <-entering:
		case <-ctx.Done():
			return zkstore.ContextError(ctx)
		}
	}
	if err := s.leave(ctx, cs); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
