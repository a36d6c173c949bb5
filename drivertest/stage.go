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
const patience = 30 * time.Second

// longTTL is the TTL where nothing is to expire: no case takes so long. An engine
// may have a lower limit, see Harness.MaxTTL.
const longTTL = 2 * time.Minute

// A stage is what one case plays on.
type stage struct {
	*testing.T
	h      Harness
	label  string
	lossy  bool
	kind   kind
	store  driver.Engine // as the harness opened it
	engine driver.Engine // as the case uses it: store, or a lossy one around it
	peer   driver.Engine // nil without Harness.Peer
	can    driver.Features
	ttl    time.Duration   // the shortest that the engine keeps
	seed   uint64          // of what is left to chance
	name   string          // a name that no other case uses; also a prefix for more
	ctx    context.Context // bounds the case

	players []*player
	clients []*pawl.Client
	filler  string // ID of the claim that holds kind.taken units
	unsure  bool   // the closing of a session had no answer at first
	tasks   sync.WaitGroup
}

func newStage(t *testing.T, h Harness, c lawCase, label string) *stage {
	t.Helper()
	s := &stage{T: t, h: h, label: label, lossy: c.lossy, kind: c.kind, ttl: h.MinTTL, seed: h.Seed}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if s.kind == (kind{}) {
		s.kind = kinds[0]
	}
	s.store = h.Open(t)
	s.engine = s.store
	if h.Peer != nil {
		s.peer = h.Peer(t, s.store)
	}
	if c.lossy {
		s.Logf("seed %d", s.seed)
		s.engine = Lossy(s.store, s.seed)
		if s.peer != nil {
			s.peer = Lossy(s.peer, s.seed+1)
		}
	}
	s.can = s.engine.Features()
	s.name = "drivertest-" + label[:12]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+20*h.MinTTL)
	s.ctx = ctx
	t.Cleanup(func() {
		cancel()
		s.end()
	})
	return s
}

// end is the integrity check of every case: with the sessions closed nothing is
// listed, nothing is left in the store, and the engine lets itself be closed.
func (s *stage) end() {
	calm := s.within("the end of the case's calls", s.tasks.Wait) && s.within("closing the clients", s.closeClients)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if calm {
		s.closeSessions(ctx)
	}
	if !s.Failed() {
		s.checkEmpty(ctx)
	}
	for _, e := range []driver.Engine{s.peer, s.store} {
		if e == nil {
			continue
		}
		if err := e.Close(); err != nil {
			s.Errorf("closing the engine: %v", err)
		}
	}
}

func (s *stage) closeClients() {
	for _, c := range s.clients {
		if err := s.closeClient(c); err != nil {
			s.Errorf("closing a client: %v", err)
		}
	}
}

// closeClient closes a client. Where replies are lost, it may not learn that what it
// held was given back.
func (s *stage) closeClient(c *pawl.Client) error {
	if err := c.Close(); !s.lossy || !errors.Is(err, pawl.ErrUnreachable) {
		return err
	}
	return nil
}

func (s *stage) closeSessions(ctx context.Context) {
	for _, p := range s.players {
		if p.dead {
			continue
		}
		err := p.again(ctx, func() error { return p.Session.Close(ctx) })
		if errors.Is(err, driver.ErrUnreachable) { // a machine that stalls: what was asked for may still be done
			s.Logf("closing a session: %v", err)
			s.unsure, err = true, p.Session.Close(ctx)
		}
		if err != nil && !errors.Is(err, driver.ErrGone) {
			s.Errorf("closing a session: %v", err)
		}
	}
}

// checkEmpty waits for the places of dead sessions to expire. Everybody else's
// have been given back, so they have no reason to be there even once.
func (s *stage) checkEmpty(ctx context.Context) {
	var wait time.Duration
	if s.unsure {
		wait = soon
	}
	for _, p := range s.players {
		if p.dead {
			wait = max(wait, 3*p.TTL()+soon)
		}
	}
	for start := time.Now(); ; time.Sleep(s.ttl / 10) {
		left, err := entries(ctx, s.store, "")
		if err != nil {
			s.Errorf("listing what is left: %v", err)
			return
		}
		left = slices.DeleteFunc(left, func(e driver.Entry) bool {
			return !strings.Contains(strings.ToLower(e.Name), s.name) // another case's
		})
		if len(left) == 0 {
			break
		}
		if time.Since(start) >= wait {
			s.Errorf("%d claims are still listed with all sessions closed: %+v", len(left), left)
			return
		}
	}
	if s.h.Clean == nil {
		return
	}
	if err := s.h.Clean(s.T, s.store); err != nil {
		s.Errorf("not clean: %v", err)
	}
}

// fill takes the units that somebody else is to hold throughout.
func (s *stage) fill() {
	if s.kind.taken == 0 {
		return
	}
	c := s.claimOf(s.kind.taken, s.kind.limit)
	s.join().hold(c)
	s.filler = c.ID
}

// claim returns a new claim of the case's kind, which stands in line where the
// engine has one.
func (s *stage) claim() driver.Claim { return s.claimOf(s.kind.need, s.kind.limit) }

func (s *stage) claimOf(need, limit int) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: s.name, Need: need, Limit: limit, Queue: s.can.Queue, Note: "drivertest"}
}

func (s *stage) reader() driver.Claim { return s.claimOf(1, driver.All) }
func (s *stage) writer() driver.Claim { return s.claimOf(driver.All, driver.All) }

// tries returns c as a claim that does not stand in line.
func tries(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// next returns c with the next Try.
func next(c driver.Claim) driver.Claim {
	c.Try++
	return c
}

// named returns c for another name of this case.
func named(c driver.Claim, name string) driver.Claim {
	c.Name = name
	return c
}

// list returns what is listed under prefix, without the filler.
func (s *stage) list(prefix string) []driver.Entry {
	s.Helper()
	var all []driver.Entry
	err := again(s.ctx, s.lossy, func() (err error) {
		all, err = entries(s.ctx, s.engine, prefix)
		return err
	})
	if err != nil {
		s.Fatalf("List(%q): %v", prefix, err)
	}
	for i := range all {
		if all[i].ID == s.filler {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}

// lineOf returns what Line shows of a name.
func (s *stage) lineOf(name string) (line []driver.Entry) {
	s.Helper()
	err := again(s.ctx, s.lossy, func() (err error) {
		line, err = s.engine.Line(s.ctx, name)
		return err
	})
	if err != nil {
		s.Fatalf("Line(%q): %v", name, err)
	}
	return line
}

// line returns what is listed for the case's one name.
func (s *stage) line() []driver.Entry {
	s.Helper()
	return s.list(s.name)
}

// entry returns the listed claim with c's ID.
func (s *stage) entry(c driver.Claim) driver.Entry {
	s.Helper()
	for _, e := range s.list(c.Name) {
		if e.ID == c.ID {
			return e
		}
	}
	s.Fatalf("claim %s is not listed under %q", c.ID, c.Name)
	return driver.Entry{}
}

// expectLine fails unless exactly these claims are listed, in this order.
func (s *stage) expectLine(what string, want ...driver.Claim) {
	s.Helper()
	got := s.line()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = got[i].ID == want[i].ID && got[i].Try == want[i].Try
	}
	if !same {
		s.Fatalf("%s: the line is\n%s\nand should be\n%s", what, showEntries(got), showClaims(want))
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
