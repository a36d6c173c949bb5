package etcdstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A Lease is a lease of the cluster that lives while KeepAlive is called. Calls under
// it wait no longer for an answer than its TTL allows.
type Lease struct {
	Calls
	ID  clientv3.LeaseID
	TTL time.Duration // as granted

	store  *Store
	ctx    context.Context // ends when Close begins, also the store's
	cancel context.CancelFunc

	mu          sync.Mutex       // guards what follows
	idle        *keepAliveStream // of the last keepalive, for the next; nil: none, or in use
	seen        header           // of the last keepalive that was answered
	interrupted bool             // see Interrupted
}

// A header is what an answer says about the store that gave it.
type header struct {
	cluster  uint64
	revision int64
}

// OpenLease asks for a lease. If there is no answer, the next call with the same ttl asks for
// the same one, which may be there: a cluster that is slow must not be made to keep, and to
// end, one lease for every attempt.
func (s *Store) OpenLease(ctx context.Context, ttl time.Duration) (*Lease, error) {
	l := &Lease{Calls: Calls{s.client, callTimeout(ttl), s.missed}, ID: s.grants.take(ttl), store: s}
	l.ctx, l.cancel = context.WithCancel(s.tasks.ctx)
	if err := l.grant(ctx, ttl); err != nil {
		l.cancel()
		if !Untouched(err) {
			s.grants.keep(ttl, l.ID)
		}
		return nil, err
	}
	l.timeout = callTimeout(l.TTL)
	return l, nil
}

// grant asks for the lease, or renews it if an earlier call has made it.
func (l *Lease) grant(ctx context.Context, ttl time.Duration) error {
	if l.client.ActiveConnection() == nil { // a client put together from parts
		var err error
		l.ID, l.TTL, err = l.Grant(ctx, ttl)
		return err
	}
	asked := &pb.LeaseGrantRequest{ID: int64(l.ID), TTL: seconds(ttl)}
	reply, err := once(ctx, l.Calls, func(call context.Context) (*pb.LeaseGrantResponse, error) {
		return clientv3.RetryLeaseClient(l.client).LeaseGrant(call, asked)
	})
	granted := reply.GetTTL()
	if errors.Is(err, rpctypes.ErrLeaseExist) {
		if granted, err = once(ctx, l.Calls, l.renew); err == nil && granted <= 0 {
			err = errNotRenewed
		}
	}
	l.TTL = time.Duration(granted) * time.Second
	return err
}

// grants are the leases that were asked for without an answer, by their TTL in seconds.
type grants struct {
	mu         sync.Mutex // guards unanswered
	unanswered map[int64][]clientv3.LeaseID
}

// maxGrants is how many leases of one TTL are remembered; others end by themselves.
const maxGrants = 64

// take returns the ID of a lease to ask for.
func (g *grants) take(ttl time.Duration) clientv3.LeaseID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ids := g.unanswered[seconds(ttl)]; len(ids) > 0 {
		if g.unanswered[seconds(ttl)] = ids[1:]; len(ids) == 1 {
			delete(g.unanswered, seconds(ttl))
		}
		return ids[0]
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	return clientv3.LeaseID(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// keep remembers a lease that may have been granted.
func (g *grants) keep(ttl time.Duration, id clientv3.LeaseID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unanswered == nil {
		g.unanswered = map[int64][]clientv3.LeaseID{}
	}
	if ids := g.unanswered[seconds(ttl)]; len(ids) < maxGrants && id != clientv3.NoLease {
		g.unanswered[seconds(ttl)] = append(ids, id)
	}
}

// Context ends when Close begins, of the lease or of its store.
func (l *Lease) Context() context.Context { return l.ctx }

// Watch starts a watch that ends with the lease.
func (l *Lease) Watch(keys Range) *Watch { return l.store.Watch(l.ctx, keys, l.timeout) }

// Close revokes the lease. The cluster deletes its keys in the same step, and refuses
// every later put under it. A lease that was not there is not an error.
func (l *Lease) Close(ctx context.Context) error {
	l.cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.Untimed().Revoke(ctx, l.ID); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// errNotRenewed says that the lease exists and was not renewed.
var errNotRenewed = fmt.Errorf("%w: a member of etcd does not know the lease yet", driver.ErrUnreachable)

// KeepAlive renews the lease once. ErrGone says that the lease has ended. A reply that
// the lease is not found is verified with a second question: a member that has not
// caught up may not know the lease yet.
func (l *Lease) KeepAlive(ctx context.Context) error {
	ttl, err := l.renew(ctx)
	if l.ctx.Err() != nil {
		return driver.ErrGone
	}
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return classify(ctx, err)
	}
	if err == nil && ttl > 0 {
		return nil
	}
	if err := l.Exists(ctx); err != nil {
		return err
	}
	return errNotRenewed
}

// Interrupted reports whether the store may have been replaced by an earlier state of
// itself since the last call of Interrupted: a backup cannot be restored without a restart,
// which ends the stream of keepalives; behind a proxy that hides it, the revision goes back
// or the cluster is another. Most interruptions are none of that. The first keepalive is
// one.
func (l *Lease) Interrupted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.interrupted
	l.interrupted = false
	return was
}

// noteLocked takes in the header of an answer to a keepalive.
func (l *Lease) noteLocked(h *pb.ResponseHeader) {
	now := header{h.GetClusterId(), h.GetRevision()}
	if l.seen != (header{}) && (now.cluster != l.seen.cluster || now.revision < l.seen.revision) {
		l.interrupted = true
	}
	l.seen = now
}

// Exists returns ErrGone if the lease is not there.
func (l *Lease) Exists(ctx context.Context) error {
	_, err := l.find(ctx)
	return err
}

// Keys returns the keys under the lease, and a revision at which, or after which, they
// were there.
func (l *Lease) Keys(ctx context.Context) (keys [][]byte, revision int64, err error) {
	found, err := l.find(ctx, clientv3.WithAttachedKeys())
	if err != nil {
		return nil, 0, err
	}
	return found.Keys, found.Revision, nil
}

func (l *Lease) find(ctx context.Context, opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	found, err := l.Untimed().TimeToLive(ctx, l.ID, opts...)
	if err == nil && found.TTL < 0 {
		err = driver.ErrGone
	}
	return found, err
}

// A keepAliveStream is kept for the next keepalive: under a password, opening a stream
// costs the server a hash that is slow by design. The client's own keepalive loop is not
// used, because it hides when a message was sent.
type keepAliveStream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// renew sends one keepalive and returns the TTL of the reply. A call that is stuck
// keeps its stream, and the next call opens another. An idle stream that broke, by a
// restart or a change of leader, is replaced: its error says nothing about now.
func (l *Lease) renew(ctx context.Context) (ttl int64, err error) {
	if l.client.ActiveConnection() == nil { // a client put together from parts
		reply, err := l.client.KeepAliveOnce(ctx, l.ID)
		if err != nil {
			return 0, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.noteLocked(reply.ResponseHeader)
		return reply.TTL, nil
	}
	l.mu.Lock()
	stream := l.idle
	l.idle = nil
	l.mu.Unlock()
	if stream != nil {
		if ttl, err = l.renewOver(ctx, stream); err == nil || ctx.Err() != nil {
			return ttl, err
		}
	}
	if stream, err = l.openKeepAlive(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.interrupted = true // also the first: the connection that the lease was granted over may have ended since
	l.mu.Unlock()
	return l.renewOver(ctx, stream)
}

// renewOver sends a keepalive over stream, and keeps the stream if it still works.
func (l *Lease) renewOver(ctx context.Context, stream *keepAliveStream) (ttl int64, err error) {
	stop := context.AfterFunc(ctx, stream.cancel) // the end of ctx ends the call, and with it the stream
	reply, err := stream.renew(l.ID)
	if !stop() || err != nil {
		stream.cancel()
		return 0, driver.Join(ctx.Err(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(reply.Header)
	if l.idle != nil || l.ctx.Err() != nil {
		stream.cancel()
	} else {
		l.idle = stream
	}
	return reply.TTL, nil
}

// openKeepAlive opens a stream that outlives ctx and ends with the lease.
func (l *Lease) openKeepAlive(ctx context.Context) (*keepAliveStream, error) {
	own, cancel := context.WithCancel(clientv3.WithRequireLeader(l.ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := clientv3.RetryLeaseClient(l.client).LeaseKeepAlive(own)
	if !stop() || err != nil {
		cancel()
		return nil, driver.Join(ctx.Err(), err)
	}
	return &keepAliveStream{stream, cancel}, nil
}

func (s *keepAliveStream) renew(id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	if err := s.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		// io.EOF says only that the stream has ended; Recv returns the reason.
		if _, reason := s.Recv(); reason != nil {
			err = reason
		}
		return nil, err
	}
	return s.Recv()
}
