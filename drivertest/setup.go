package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func newFixture(t *testing.T, h Harness, c lawCase, label string) *fixture {
	t.Helper()
	f := &fixture{T: t, h: h, label: label, losesReplies: c.losesReplies, claimKind: c.claimKind, ttl: h.MinTTL, seed: h.Seed}
	if f.seed == 0 {
		f.seed = rand.Uint64()
	}
	if f.claimKind == (claimKind{}) {
		f.claimKind = claimKinds[0]
	}
	f.store = h.Open(t)
	f.engine = f.store
	if h.Peer != nil {
		f.peer = h.Peer(t, f.store)
	}
	if c.losesReplies {
		f.Logf("seed %d", f.seed)
		f.engine = LoseReplies(f.store, f.seed)
		if f.peer != nil {
			f.peer = LoseReplies(f.peer, f.seed+1)
		}
	}
	f.can = f.engine.Features()
	f.name = "drivertest-" + label[:12]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+20*h.MinTTL)
	f.ctx = ctx
	t.Cleanup(func() {
		cancel()
		f.teardown()
	})
	return f
}

// teardown closes the sessions, clients and engines, and checks that nothing is
// listed and nothing is left in the store.
func (f *fixture) teardown() {
	calm := f.finishes("the end of the case's calls", f.goroutines.Wait) && f.finishes("closing the clients", f.closeClients)
	ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
	defer cancel()
	if calm {
		f.closeSessions(ctx)
	}
	if !f.Failed() {
		f.checkEmpty(ctx)
	}
	for _, e := range []driver.Engine{f.peer, f.store} {
		if e == nil {
			continue
		}
		if err := e.Close(); err != nil {
			f.Errorf("closing the engine: %v", err)
		}
	}
}

func (f *fixture) closeClients() {
	for _, c := range f.clients {
		if err := f.closeClient(c); err != nil {
			f.Errorf("closing a client: %v", err)
		}
	}
}

// closeClient closes a client. If replies are lost, Close may not learn that its
// locks were released.
func (f *fixture) closeClient(c *pawl.Client) error {
	if err := c.Close(); !f.losesReplies || !errors.Is(err, pawl.ErrUnreachable) {
		return err
	}
	return nil
}

func (f *fixture) closeSessions(ctx context.Context) {
	for _, s := range f.sessions {
		if s.dead {
			continue
		}
		err := s.retryLostReply(ctx, func() error { return s.Session.Close(ctx) })
		if errors.Is(err, driver.ErrUnreachable) { // the machine stalled: the store may still carry the call out
			f.Logf("closing a session: %v", err)
			f.closeUnanswered, err = true, s.Session.Close(ctx)
		}
		if err != nil && !errors.Is(err, driver.ErrGone) {
			f.Errorf("closing a session: %v", err)
		}
	}
}

// checkEmpty checks that no claim of the case is listed. Only claims of crashed
// sessions and of unanswered Closes get time to disappear.
func (f *fixture) checkEmpty(ctx context.Context) {
	var wait time.Duration
	if f.closeUnanswered {
		wait = soon
	}
	for _, s := range f.sessions {
		if s.dead {
			wait = max(wait, 3*s.TTL()+soon)
		}
	}
	for start := time.Now(); ; time.Sleep(f.ttl / 10) {
		left, err := entries(ctx, f.store, "")
		if err != nil {
			f.Errorf("listing what is left: %v", err)
			return
		}
		left = slices.DeleteFunc(left, func(e driver.Entry) bool {
			return !strings.Contains(strings.ToLower(e.Name), f.name) // of another case
		})
		if len(left) == 0 {
			break
		}
		if time.Since(start) >= wait {
			f.Errorf("%d claims are still listed with all sessions closed: %+v", len(left), left)
			return
		}
	}
	if f.h.Clean == nil {
		return
	}
	if err := f.h.Clean(f.T, f.store); err != nil {
		f.Errorf("not clean: %v", err)
	}
}

// holdTaken holds the units that the case's kind of claim needs to be taken.
func (f *fixture) holdTaken() {
	if f.claimKind.taken == 0 {
		return
	}
	c := f.claimOf(f.claimKind.taken, f.claimKind.limit)
	f.open().mustHold(c)
	f.filler = c.ID
}
