package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Beat prolongs the lease, and with it every claim, by one message. Then it asks
// whether the key of each is still the one that was created for it: a keepalive does
// not notice that a key was deleted, or deleted and put again by an Enter that was
// held up on its way, and some servers answer it for a lease that was revoked.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if err := s.prolong(ctx); err != nil {
		return err
	}
	missing, err := s.verify(ctx, live, out)
	if err == nil && missing {
		err = s.exists(ctx)
	}
	if err == nil && s.doubts() {
		err = s.endStrays(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	return err
}

// exists asks whether the lease is there.
func (s *session) exists(ctx context.Context) error {
	got, err := s.e.client.TimeToLive(ctx, s.lease)
	if err != nil {
		return classify(ctx, err)
	}
	if got.TTL < 0 {
		return driver.ErrGone
	}
	return nil
}

// prolong sends one keepalive. That a lease is not found is asked again by other
// means: a member that has not caught up may not know it yet.
func (s *session) prolong(ctx context.Context) error {
	ttl, err := s.pulse.send(ctx, s)
	if s.begun.Err() != nil {
		return driver.ErrGone
	}
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return classify(ctx, err)
	}
	if err == nil && ttl > 0 {
		return nil
	}
	if err := s.exists(ctx); err != nil {
		return err
	}
	return errNotFound
}

// errNotFound says that the lease was there and was not prolonged.
var errNotFound = fmt.Errorf("%w: a member of etcd does not know the lease yet", driver.ErrUnreachable)

// pulse is the stream that a session's keepalives go over. It is kept: under a
// password, opening one costs the server a hash that is made to be slow. The
// client's own keepalive is not used, since it hides when a message was sent.
type pulse struct {
	mu   sync.Mutex // guards idle
	idle *beating   // nil: none, or in use
}

type beating struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// send prolongs the lease once and returns the TTL it was given. A beat that is
// stuck keeps its stream, and the next one has another. A stream that broke while
// it was idle, by a restart or a change of leader, says nothing about now.
func (u *pulse) send(ctx context.Context, s *session) (ttl int64, err error) {
	if s.e.client.ActiveConnection() == nil { // a client put together from parts
		reply, err := s.e.client.KeepAliveOnce(ctx, s.lease)
		if err != nil {
			return 0, err
		}
		return reply.TTL, nil
	}
	u.mu.Lock()
	b := u.idle
	u.idle = nil
	u.mu.Unlock()
	if b != nil {
		if ttl, err = u.sendOver(ctx, s, b); err == nil || ctx.Err() != nil {
			return ttl, err
		}
	}
	if b, err = s.openPulse(ctx); err != nil {
		return 0, err
	}
	return u.sendOver(ctx, s, b)
}

// sendOver sends over b, and keeps it for the next if it is still of use.
func (u *pulse) sendOver(ctx context.Context, s *session, b *beating) (ttl int64, err error) {
	stop := context.AfterFunc(ctx, b.cancel) // a call ends with its ctx, and the stream with it
	reply, err := b.ask(s.lease)
	if !stop() || err != nil {
		b.cancel()
		return 0, driver.Join(ctx.Err(), err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.idle != nil || s.begun.Err() != nil {
		b.cancel()
	} else {
		u.idle = b
	}
	return reply.TTL, nil
}

// openPulse opens a stream that outlives ctx and ends with the session.
func (s *session) openPulse(ctx context.Context) (*beating, error) {
	own, cancel := context.WithCancel(clientv3.WithRequireLeader(s.begun))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := clientv3.RetryLeaseClient(s.e.client).LeaseKeepAlive(own)
	if !stop() || err != nil {
		cancel()
		return nil, driver.Join(ctx.Err(), err)
	}
	return &beating{stream, cancel}, nil
}

func (b *beating) ask(lease clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	if err := b.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		// io.EOF says only that the stream has ended; Recv says why.
		if _, why := b.Recv(); why != nil {
			err = why
		}
		return nil, err
	}
	return b.Recv()
}
