package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// An exclusionTest is where clients take one lock in turn, and watches them.
type exclusionTest struct {
	t     *testing.T
	mu    sync.Mutex // guards what follows
	live  map[*pawl.Lease]bool
	last  uint64
	turns int
	took  chan struct{} // closed and replaced by every turn
}

func newExclusionTest(t *testing.T) *exclusionTest {
	return &exclusionTest{t: t, live: map[*pawl.Lease]bool{}, took: make(chan struct{})}
}

// acquired notes a hold. Earlier holders must know that they do not hold.
func (a *exclusionTest) acquired(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.live {
		if other.Err() == nil {
			a.t.Errorf("token %d is held while token %d is", l.Token(), other.Token())
		}
	}
	if l.Token() <= a.last {
		a.t.Errorf("token %d follows token %d", l.Token(), a.last)
	}
	a.live[l], a.last = true, l.Token()
	a.turns++
	close(a.took)
	a.took = make(chan struct{})
}

func (a *exclusionTest) released(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, l)
}

// contend has clients take the lock again and again until the test ends.
func (a *exclusionTest) contend(clients ...*pawl.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex("arena").Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						a.t.Errorf("Lock: %v", err)
					}
					return
				}
				a.acquired(l)
				select {
				case <-time.After(20 * time.Millisecond): // the work
				case <-l.Context().Done():
				}
				a.released(l)
				if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
					a.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	a.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// expect fails unless n more turns are taken within a time of service by the nodes.
func (a *exclusionTest) expect(what string, n int, within time.Duration, g *faultyEnsemble, nodes ...int) {
	a.t.Helper()
	begun, service := time.Now(), g.serving(a.t, nodes...)
	defer service.Stop()
	a.mu.Lock()
	goal := a.turns + n
	a.mu.Unlock()
	for {
		a.mu.Lock()
		turns, took := a.turns, a.took
		a.mu.Unlock()
		if turns >= goal {
			a.t.Logf("%s: the waiters went on within %v, the servers served for %v", what,
				time.Since(begun).Round(time.Millisecond), service.Served().Round(time.Millisecond))
			return
		}
		select {
		case <-took:
		case <-service.After(within):
			a.t.Fatalf("%s: %d of %d turns while the servers served for %v", what, n-(goal-turns), n, within)
		case <-time.After(4 * patience):
			a.t.Fatalf("%s: %d of %d turns; the servers do not serve", what, n-(goal-turns), n)
		}
	}
}

// A contest is a lease in a client that is about to be cut off, and a rival that
// stands in line for the same name.
type contest struct {
	name string
	held *pawl.Lease
	next chan result // what the rival's Lock returns
}

type result struct {
	lease    *pawl.Lease
	err      error
	at       time.Time
	believed bool // the other still took itself for the holder
}

// startContests has names taken by clients on one node, one after the other, so that their
// beats are in different phases.
func startContests(t *testing.T, g *faultyEnsemble, path string, n, holder int, rivals ...int) []contest {
	t.Helper()
	all := make([]contest, n)
	rival, watcher := g.client(t, path, rivals...), connect(t, g.Addrs(), WithPath(path))
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	var waits sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		waits.Wait()
	})
	for i := range all {
		d := contest{name: fmt.Sprintf("contest/%d", i), next: make(chan result, 1)}
		var err error
		if d.held, err = g.client(t, path, holder).Mutex(d.name).Lock(ctx); err != nil {
			t.Fatal(err)
		}
		waits.Go(func() {
			l, err := rival.Mutex(d.name).Lock(ctx)
			d.next <- result{l, err, time.Now(), d.held.Err() == nil}
		})
		awaitLength(t, watcher, d.name, 2)
		all[i] = d
		time.Sleep(faultTTL / 3 / time.Duration(n)) // to spread the phases is all it is for
	}
	return all
}

// awaitLength waits until a line has n claims.
func awaitLength(t *testing.T, e *Engine, name string, n int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if got := len(listed(t, e, name)); got == n {
			return
		} else if time.Since(begun) > patience {
			t.Fatalf("%d are in line for %q, not %d", got, name, n)
		}
	}
}

// finishContests waits until every rival holds, and fails where the other still believed, or
// where a rival had to wait too long while these nodes served.
func finishContests(t *testing.T, all []contest, g *faultyEnsemble, nodes ...int) {
	t.Helper()
	begun, service := time.Now(), g.serving(t, nodes...)
	defer service.Stop()
	for _, d := range all {
		var r result
		select {
		case r = <-d.next:
		case <-service.After(2 * faultTTL):
			t.Errorf("%s: the rival waits for more than %v of service", d.name, 2*faultTTL)
			r = <-d.next // ends with its context
		}
		if r.err != nil {
			t.Errorf("%s: %v", d.name, r.err)
			continue
		}
		if r.believed {
			t.Errorf("%s: both hold, %v after the cut", d.name, r.at.Sub(begun))
		}
		if r.lease.Token() <= d.held.Token() {
			t.Errorf("%s: token %d follows %d", d.name, r.lease.Token(), d.held.Token())
		}
		if err := r.lease.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // what is not answered now is left later
			t.Errorf("%s: %v", d.name, err)
		}
	}
	t.Logf("the rivals held within %v, the servers served for %v",
		time.Since(begun).Round(time.Millisecond), service.Served().Round(time.Millisecond))
}

// Fairness through the public API, over processes that all come and go.
func TestReadersAndWritersOfManyClientsExclude(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var inside [2]chan struct{}
	inside[0], inside[1] = make(chan struct{}, 64), make(chan struct{}, 1)
	errs := make(chan error, 6)
	for i := range 6 {
		c := pawl.New(connect(t, []string{oneServer(t)}, WithPath(path)))
		t.Cleanup(func() { c.Close() })
		go func() {
			errs <- func() error {
				rw := c.RWMutex("catalogue")
				for range 15 {
					if i%3 == 0 {
						l, err := rw.Lock(ctx)
						if err != nil {
							return err
						}
						if len(inside[0]) > 0 || len(inside[1]) > 0 {
							return fmt.Errorf("a writer beside %d readers and %d writers", len(inside[0]), len(inside[1]))
						}
						inside[1] <- struct{}{}
						<-inside[1]
						if err := l.Unlock(); err != nil {
							return err
						}
						continue
					}
					l, err := rw.RLock(ctx)
					if err != nil {
						return err
					}
					inside[0] <- struct{}{}
					if len(inside[1]) > 0 {
						return errors.New("a reader beside a writer")
					}
					<-inside[0]
					if err := l.Unlock(); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
