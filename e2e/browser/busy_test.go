package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/internal/testserver"
)

// sceneTTL is longer than a claim of a scene waits: nothing prolongs waiting claims when
// the clock is moved.
const sceneTTL = 5 * time.Minute

// A scene builds a store that looks as if it had been busy for a while: the server's
// clock is moved between its steps.
type scene struct {
	*store
	clock  *testserver.Clock
	leases []*pawl.Lease
}

// busyStore returns a store with mutexes, readers and writers, permits, an election, a
// chain and a cycle.
func busyStore(t *testing.T) *store {
	t.Helper()
	clock := testserver.NewClock(t)
	s := &scene{store: newStore(t, "redis://"+testserver.RedisOn(t, clock).Addr()), clock: clock}
	s.quiet()
	s.deploys()
	s.readersAndPermits()
	s.chain()
	s.cycle()
	return s.store
}

// later moves the server's clock, and prolongs what is held.
func (s *scene) later(d time.Duration) {
	s.t.Helper()
	for ; d > 0; d -= sceneTTL / 2 {
		s.clock.Step(min(d, sceneTTL/2))
		for _, lease := range s.leases {
			if err := lease.Confirm(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// lock acquires a mutex by a client of its own.
func (s *scene) lock(note, name string) { s.t.Helper(); s.lockBy(s.client(note), name) }

func (s *scene) lockBy(c *pawl.Client, name string) {
	s.t.Helper()
	s.hold(c.Mutex(name).Lock(s.t.Context()))
}

// hold keeps a lease.
func (s *scene) hold(lease *pawl.Lease, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.leases = append(s.leases, lease)
}

// queueAs lets a client of its own wait for a mutex.
func (s *scene) queueAs(note, name string) { s.t.Helper(); s.queueOf(s.client(note), name) }

// quiet are locks for which nobody waits.
func (s *scene) quiet() {
	s.t.Helper()
	s.lock("cron@db-1 pid 911 pg_dump (weekly)", "backup/weekly")
	s.later(17 * time.Minute)
	for i := range 4 {
		s.lock(fmt.Sprintf("shop@web-%d pid %d orders", i+1, 3200+i), fmt.Sprintf("orders/%d", 4100+17*i))
	}
}

// deploys wait for one that takes long.
func (s *scene) deploys() {
	s.t.Helper()
	s.lock("ana@ci-7 pid 4121 deploy.sh (release 4.2)", "deploy/production")
	s.later(70 * time.Second)
	s.queueAs("ben@ci-8 pid 812 deploy.sh (release 4.3)", "deploy/production")
	s.later(40 * time.Second)
	s.queueAs("cleo@ci-2 pid 98 rollback.sh", "deploy/production")
	s.later(12 * time.Second)
	s.queueAs("ops@bastion pid 20733 kubectl (hotfix)", "deploy/production")
}

// readersAndPermits are a catalogue whose readers a writer waits for, and a pool.
func (s *scene) readersAndPermits() {
	s.t.Helper()
	for i := range 3 {
		s.hold(s.client(fmt.Sprintf("shop@web-%d pid %d catalogue", i+1, 3300+i)).RWMutex("catalogue").RLock(s.t.Context()))
	}
	s.later(5 * time.Second)
	writer := s.client("pim@jobs-1 pid 51 reindex")
	s.inLine("catalogue", func(ctx context.Context) (*pawl.Lease, error) {
		return writer.RWMutex("catalogue").Lock(ctx)
	})
	s.later(3 * time.Second)
	reader := s.client("shop@web-4 pid 3307 catalogue")
	s.inLine("catalogue", func(ctx context.Context) (*pawl.Lease, error) {
		return reader.RWMutex("catalogue").RLock(ctx)
	})
	for i, permits := range []int{2, 1} {
		s.hold(s.client(fmt.Sprintf("ml@gpu-%d pid %d train.py", i+1, 700+i)).Semaphore("gpu", 4).Acquire(s.t.Context(), permits))
	}
	s.later(9 * time.Second)
	trainer := s.client("ml@gpu-3 pid 702 train.py (large model)")
	s.inLine("gpu", func(ctx context.Context) (*pawl.Lease, error) {
		return trainer.Semaphore("gpu", 4).Acquire(ctx, 2)
	})
}

// chain is a report that waits for an import that waits for a deploy.
func (s *scene) chain() {
	s.t.Helper()
	importer := s.client("etl@jobs-2 pid 614 import.py (nightly)")
	s.lockBy(importer, "warehouse/load")
	s.queueOf(importer, "deploy/production")
	s.later(8 * time.Second)
	report := s.client("bi@jobs-3 pid 1202 report.R")
	s.lockBy(report, "report/monthly")
	s.queueOf(report, "warehouse/load")
	s.queueAs("mail@jobs-1 pid 55 send", "report/monthly")
}

// cycle is two transfers, each of which waits for the other, and beside them the leader
// of an election.
func (s *scene) cycle() {
	s.t.Helper()
	one, two := s.client("bank@core-1 pid 31 transfer"), s.client("bank@core-2 pid 32 transfer")
	s.lockBy(one, "account/3")
	s.lockBy(two, "account/7")
	s.later(4 * time.Second)
	s.queueOf(one, "account/7")
	s.queueOf(two, "account/3")
	if _, err := election.New(s.client("jobs"), "scheduler").Campaign(s.t.Context(), "10.0.0.7:8080"); err != nil {
		s.t.Fatal(err)
	}
	s.later(6 * time.Second)
}

// inLine acquires in the background, and returns when the claim is in line.
func (s *scene) inLine(name string, acquire func(ctx context.Context) (*pawl.Lease, error)) {
	s.t.Helper()
	before := len(s.line(name))
	s.wait(acquire)
	awaitGo(s.t, "a claim in line for "+name, func() bool { return len(s.line(name)) > before })
}
