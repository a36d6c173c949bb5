package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// leasesOf counts the leases of a server.
func leasesOf(t testing.TB, c *clientv3.Client) int {
	t.Helper()
	all, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Leases)
}

// awaitLeases waits until a server has n leases.
func awaitLeases(t testing.TB, c *clientv3.Client, n int) {
	t.Helper()
	got := leasesOf(t, c)
	for begun := time.Now(); got != n && time.Since(begun) < clusterTimeout; got = leasesOf(t, c) {
		time.Sleep(10 * time.Millisecond)
	}
	if got != n {
		t.Fatalf("%d leases, not %d", got, n)
	}
}

// Each write of a record has a lease for as long as the record is kept. A write that a
// missing right refuses must not leave it behind: a service that tries once a second would
// leave 86 400 a day.
func TestARefusedRecordLeavesNoLease(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{"Debian's": testserver.Etcd, "newest": testserver.NewEtcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			permit(t, server)
			login := func(user, password string) *clientv3.Client {
				c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: user, Password: password, Logger: zap.NewNop()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			root := login("root", "root-word")
			e := newTestEngine(login("ana", "hidden-word"), "other") // where ana has no right
			for range 20 {
				_, err := e.Store(t.Context(), "key", []byte("value"), 0, 24*time.Hour)
				expect(t, "a write without the right", err, driver.ErrDenied)
			}
			if err := e.Close(); err != nil { // waits for what it has begun
				t.Error(err)
			}
			awaitLeases(t, root, 0)
		})
	}
}

// The lease of a write that was refused, or replaced another, ends also when the caller's
// ctx has ended in the meantime, and before the write was sent.
func TestARecordsLeaseEndsThoughItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t)
	admin := dial(t, []string{server.Addr()})
	var p interceptor
	e := engine(t, []string{server.Addr()}, p.option())
	version, err := e.Store(t.Context(), "key", []byte("first"), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	grants := func(request any) bool { _, ok := request.(*pb.LeaseGrantRequest); return ok }
	for name, c := range map[string]struct {
		which     func(any) bool
		ifVersion uint64
	}{
		"refused":           {puts, version + 1000},
		"replaces another":  {puts, version},
		"not sent":          {grants, version},
		"refused, not sent": {grants, version + 1000},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p.next(c.which, func(send func() error) error {
			err := send()
			cancel()
			return err
		})
		_, err := e.Store(ctx, "key", []byte("second"), c.ifVersion, time.Hour)
		if err != nil && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		awaitLeases(t, admin, 1) // that of the record
		cancel()
	}
}

// After a lost reply the record may be under the lease: it must not end with it.
func TestARecordWhoseReplyWasLostIsKept(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t)
	admin := dial(t, []string{server.Addr()})
	var p interceptor
	e := engine(t, []string{server.Addr()}, p.option())
	p.next(puts, loseAnswer)
	_, err := e.Store(t.Context(), "key", []byte("value"), 0, time.Hour)
	expect(t, "Store whose answer is lost", err, driver.ErrUnreachable)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	again := newTestEngine(admin, "test/"+t.Name())
	if value, _, err := again.Load(t.Context(), "key"); err != nil || string(value) != "value" {
		t.Errorf("%q, %v", value, err)
	}
	if n := leasesOf(t, admin); n != 1 {
		t.Errorf("%d leases", n)
	}
}
