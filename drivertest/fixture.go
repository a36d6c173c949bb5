package drivertest

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// soon bounds what must happen without waiting for a timer. It is wide, since
// real machines stall, and still a small part of longTTL, which is what a turn
// that nobody was told of costs.
const soon = 5 * time.Second

// patience bounds what ends a case. It is longer than a client waits for a store.
const teardownTimeout = 30 * time.Second

// longTTL is the TTL where nothing is to expire: no case takes so long. An engine
// may have a lower limit, see Harness.MaxTTL.
const longTTL = 2 * time.Minute

// A stage is what one case plays on.
type fixture struct {
	*testing.T
	h            Harness
	label        string
	losesReplies bool
	claimKind    claimKind
	store        driver.Engine // as the harness opened it
	engine       driver.Engine // as the case uses it: store, or a lossy one around it
	peer         driver.Engine // nil without Harness.Peer
	can          driver.Features
	ttl          time.Duration   // the shortest that the engine keeps
	seed         uint64          // of what is left to chance
	name         string          // a name that no other case uses; also a prefix for more
	ctx          context.Context // bounds the case

	sessions        []*session
	clients         []*pawl.Client
	filler          string // ID of the claim that holds kind.taken units
	closeUnanswered bool   // the closing of a session had no answer at first
	goroutines      sync.WaitGroup
}

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

// end is the integrity check of every case: with the sessions closed nothing is
// listed, nothing is left in the store, and the engine lets itself be closed.
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

// closeClient closes a client. Where replies are lost, it may not learn that what it
// held was given back.
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
		if errors.Is(err, driver.ErrUnreachable) { // a machine that stalls: what was asked for may still be done
			f.Logf("closing a session: %v", err)
			f.closeUnanswered, err = true, s.Session.Close(ctx)
		}
		if err != nil && !errors.Is(err, driver.ErrGone) {
			f.Errorf("closing a session: %v", err)
		}
	}
}

// checkEmpty waits for the places of dead sessions to expire. Everybody else's
// have been given back, so they have no reason to be there even once.
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
			return !strings.Contains(strings.ToLower(e.Name), f.name) // another case's
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

// fill takes the units that somebody else is to hold throughout.
func (f *fixture) holdTaken() {
	if f.claimKind.taken == 0 {
		return
	}
	c := f.claimOf(f.claimKind.taken, f.claimKind.limit)
	f.open().mustHold(c)
	f.filler = c.ID
}

// claim returns a new claim of the case's kind, which stands in line where the
// engine has one.
func (f *fixture) claim() driver.Claim { return f.claimOf(f.claimKind.need, f.claimKind.limit) }

func (f *fixture) claimOf(need, limit int) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: f.name, Need: need, Limit: limit, Queue: f.can.Queue, Note: "drivertest"}
}

func (f *fixture) reader() driver.Claim { return f.claimOf(1, driver.All) }
func (f *fixture) writer() driver.Claim { return f.claimOf(driver.All, driver.All) }

// tries returns c as a claim that does not stand in line.
func withoutQueue(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// next returns c with the next Try.
func nextTry(c driver.Claim) driver.Claim {
	c.Try++
	return c
}

// named returns c for another name of this case.
func withName(c driver.Claim, name string) driver.Claim {
	c.Name = name
	return c
}

// list returns what is listed under prefix, without the filler.
func (f *fixture) list(prefix string) []driver.Entry {
	f.Helper()
	var all []driver.Entry
	err := retryLostReply(f.ctx, f.losesReplies, func() (err error) {
		all, err = entries(f.ctx, f.engine, prefix)
		return err
	})
	if err != nil {
		f.Fatalf("List(%q): %v", prefix, err)
	}
	for i := range all {
		if all[i].ID == f.filler {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}

// lineOf returns what Line shows of a name.
func (f *fixture) lineOf(name string) (line []driver.Entry) {
	f.Helper()
	err := retryLostReply(f.ctx, f.losesReplies, func() (err error) {
		line, err = f.engine.Line(f.ctx, name)
		return err
	})
	if err != nil {
		f.Fatalf("Line(%q): %v", name, err)
	}
	return line
}

// line returns what is listed for the case's one name.
func (f *fixture) line() []driver.Entry {
	f.Helper()
	return f.list(f.name)
}

// entry returns the listed claim with c's ID.
func (f *fixture) entry(c driver.Claim) driver.Entry {
	f.Helper()
	for _, e := range f.list(c.Name) {
		if e.ID == c.ID {
			return e
		}
	}
	f.Fatalf("claim %s is not listed under %q", c.ID, c.Name)
	return driver.Entry{}
}

// expectLine fails unless exactly these claims are listed, in this order.
func (f *fixture) expectLine(what string, want ...driver.Claim) {
	f.Helper()
	got := f.line()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = got[i].ID == want[i].ID && got[i].Try == want[i].Try
	}
	if !same {
		f.Fatalf("%s: the line is\n%s\nand should be\n%s", what, showEntries(got), showClaims(want))
	}
}

func entries(ctx context.Context, e driver.Engine, prefix string) ([]driver.Entry, error) {
	var all []driver.Entry
	for entry, err := range e.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

func newID() string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func showEntries(es []driver.Entry) (out string) {
	for _, e := range es {
		out += fmt.Sprintf("  %s try %d, %d of %d, held %v, token %d\n", e.ID, e.Try, e.Need, e.Limit, e.Held, e.Fence)
	}
	return out
}

func showClaims(cs []driver.Claim) (out string) {
	for _, c := range cs {
		out += fmt.Sprintf("  %s try %d, %d of %d\n", c.ID, c.Try, c.Need, c.Limit)
	}
	return out
}
