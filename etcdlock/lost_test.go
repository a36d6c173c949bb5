package etcdlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// An unlock of etcd's own mutex reports nothing when the lock was lost before.
func TestUnlockReportsThatTheLockWasLost(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	c, e := client(t, addr, time.Minute), engine(t, addr)
	l := lock(t, c.Mutex("name"))
	deleteLine(t, e, "name")
	expect(t, "Unlock of a lock whose key was deleted", l.Unlock(), pawl.ErrLost)
}

func deleteLine(t testing.TB, e *Engine, name string) {
	t.Helper()
	line := e.keys.line(name).all()
	got, err := clientOf(e).Delete(t.Context(), line.From, clientv3.WithRange(line.To))
	if err != nil || got.Deleted == 0 {
		t.Fatalf("%d keys deleted, %v", got.Deleted, err)
	}
}

// A keepalive does not report that a key is gone, and some servers answer it even for a
// lease that was revoked (etcd#20616).
func TestABeatNoticesADeletedKeyAndARevokedLease(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	kind := onMessage(func(_ string, m any) {
		if r, ok := m.(*pb.LeaseKeepAliveResponse); ok {
			r.TTL = 60 // as a server with that bug replies
		}
	})
	e, admin := engine(t, addr, kind), dial(t, addr)
	s := open(t, e, longTTL)
	one, two := mutex("one"), mutex("two")
	hold(t, s, one)
	hold(t, s, two)
	out := make([]driver.Standing, 2)
	live := []driver.Claim{one, two}
	if err := s.Beat(t.Context(), live, out); err != nil || out[0].Gone || out[1].Gone || out[0].Valid != s.TTL() {
		t.Fatalf("Beat: %+v, %v", out, err)
	}
	deleteLine(t, e, "one")
	if err := s.Beat(t.Context(), live, out); err != nil || !out[0].Gone || out[1].Gone {
		t.Errorf("Beat after one key was deleted: %+v, %v", out, err)
	}
	if _, err := admin.Revoke(t.Context(), s.lease.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, "Beat after the lease was revoked", s.Beat(t.Context(), live[1:], out[1:]), driver.ErrGone)
}

// A leader of etcd 3.4 that has not applied an Enter yet does not list its key under the
// lease: that must not be mistaken for an eviction.
func TestAKeyThatTheLeaderHasNotAppliedYetIsNotGone(t *testing.T) {
	t.Parallel()
	var hide atomic.Bool
	e := engine(t, []string{sharedEtcd(t).Addr()}, afterCall(func(_ string, _, reply any, _ error) {
		if r, ok := reply.(*pb.LeaseTimeToLiveResponse); ok && hide.Load() {
			r.Keys = nil
		}
	}))
	s := open(t, e, longTTL)
	there, gone := mutex("there"), mutex("gone")
	hold(t, s, there)
	hold(t, s, gone)
	deleteLine(t, e, "gone")
	hide.Store(true)
	out := make([]driver.Standing, 2)
	if err := s.Beat(t.Context(), []driver.Claim{there, gone}, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Gone || out[0].Valid != s.TTL() || !out[1].Gone {
		t.Errorf("Beat: %+v; the first is there, the second is not", out)
	}
}

// consul#4902: a lock that was lost once could not be taken again.
func TestAMutexCanBeLockedAgainAfterALoss(t *testing.T) {
	t.Parallel()
	addr := []string{sharedEtcd(t).Addr()}
	var leases leaseLog
	c := client(t, addr, 3*time.Second, leases.note())
	m := c.Mutex("name")
	l := lock(t, m)
	if _, err := dial(t, addr).Revoke(t.Context(), clientv3.LeaseID(leases.ids[0])); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(3*time.Second + soon):
		t.Fatal("the holder was not notified that its lease was revoked")
	}
	expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
	expect(t, "Unlock", l.Unlock(), pawl.ErrLost)
	again := lock(t, m)
	if again.Token() <= l.Token() {
		t.Errorf("token %d after %d", again.Token(), l.Token())
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}

// A restored cluster does not know the locks that were taken after the backup.
func TestARestoredBackupTellsHoldersThatTheyLost(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	addr := []string{server.Addr()}
	restore := backup(t, server)
	c := client(t, addr, 5*time.Second)
	for range 5 {
		if err := lock(t, c.Mutex("name")).Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	l := lock(t, c.Mutex("name"))
	restore()
	select {
	case <-l.Context().Done():
	case <-time.After(5*time.Second + soon):
		t.Fatal("a holder that the restored cluster does not know was not notified")
	}
	expect(t, "the cause", context.Cause(l.Context()), pawl.ErrLost)
	again := lock(t, c.Mutex("name"))
	if again.Token() >= l.Token() {
		t.Errorf("token %d after %d: the documentation says that tokens go back", again.Token(), l.Token())
	}
}

// The order of events: a client holds two names, a backup is made, the client gives one
// back, the backup is restored. The name that was given back is in line again, under a lease
// that the client keeps alive for the other.
func TestARestoredBackupDoesNotLockWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]int{"to an earlier revision": 0, "and others have written since": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.NewEtcd(t)
			addr := []string{server.Addr()}
			mine, rival := client(t, addr, 20*time.Second), client(t, addr, 20*time.Second)
			kept, l := lock(t, mine.Mutex("kept")), lock(t, mine.Mutex("given back"))
			restore := backup(t, server)
			if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
			restore()
			admin := dial(t, addr)
			for range write {
				if _, err := admin.Put(t.Context(), "other", ""); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
			defer cancel()
			if _, err := rival.Mutex("given back").Lock(ctx); err != nil {
				t.Errorf("the name is not free while its former holder's client lives: %v", err)
			}
			if err := kept.Err(); err != nil {
				t.Errorf("the other lock, which the backup has: %v", err)
			}
		})
	}
}
