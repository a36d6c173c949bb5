package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A hooked node calls before ahead of every call of its sessions.
type hooked struct {
	*memlock.Engine
	before func(op string, c *driver.Claim) error
}

func (h *hooked) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := h.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &hookedSession{s, s.(driver.Voter), h}, nil
}

type hookedSession struct {
	driver.Session
	driver.Voter
	h *hooked
}

func (s *hookedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.h.before("enter", &c); err != nil {
		return driver.Standing{}, err
	}
	return s.Session.Enter(ctx, c)
}

func (s *hookedSession) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.h.before("leave", &c); err != nil {
		return err
	}
	return s.Session.Leave(ctx, c)
}

func (s *hookedSession) Mark(ctx context.Context) (uint64, uint64, error) {
	if err := s.h.before("mark", nil); err != nil {
		return 0, 0, err
	}
	return s.Voter.Mark(ctx)
}

func (s *hookedSession) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	if err := s.h.before("confirm", &c); err != nil {
		return false, err
	}
	return s.Voter.Confirm(ctx, c, granted, token)
}

func (s *hookedSession) Rejoin(ctx context.Context, high, epoch uint64) error {
	if err := s.h.before("rejoin", nil); err != nil {
		return err
	}
	return s.Voter.Rejoin(ctx, high, epoch)
}

// hook returns n nodes that all call before.
func hook(n int, before func(i int, op string, c *driver.Claim) error) (mem []*memlock.Engine, all []quorum.Node) {
	for i := range n {
		mem = append(mem, memlock.New())
		all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: &hooked{mem[i], func(op string, c *driver.Claim) error { return before(i, op, c) }}})
	}
	return mem, all
}

func sessionOf(t *testing.T, e driver.Engine, id string, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mutex(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1}
}

func TestAQuorumThatLostEverythingIsSilentToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		all := nodes(3)
		a, b := open(t, all), open(t, all)
		defer a.Close()
		defer b.Close()
		holder := sessionOf(t, a, "holder", ttl)
		if st, err := holder.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		for _, n := range all { // a power cut: all servers come back empty
			n.Engine.(*memlock.Engine).Forget()
		}
		rival, err := b.Open(t.Context(), driver.SessionOptions{ID: "rival", TTL: ttl})
		if err != nil {
			return // right: nobody votes yet
		}
		st, err := rival.Enter(t.Context(), mutex("bb", "name"))
		if err == nil && st.Held {
			t.Errorf("granted while the holder's lease of %v has just begun", ttl)
		}
	})
}

func TestRejoinDoesNotCopyTheMarkOfANodeThatWasEmptiedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		var apart, armed, raised atomic.Bool
		var mem []*memlock.Engine
		var all []quorum.Node
		mem, all = hook(3, func(i int, op string, c *driver.Claim) error {
			switch {
			case op == "enter" && i == 1 && apart.Load():
				return driver.ErrUnreachable // n2 misses the grants
			case op == "enter":
				c.Propose = 0 // clocks are no help
			case op == "rejoin" && i == 0 && armed.Load():
				raised.Store(true)
			case op == "mark" && i == 0 && raised.CompareAndSwap(true, false):
				armed.Store(false)
				mem[0].Forget() // after its epoch was raised, before its mark is read
			}
			return nil
		})
		e := open(t, all, quorum.WithMaxTTL(ttl))
		defer e.Close()
		s := sessionOf(t, e, "s", ttl)
		apart.Store(true)
		var last uint64
		for k := range 10 { // n1 and n3 count to ten, n2 knows nothing of it
			c := mutex(fmt.Sprintf("%02x", k), "name")
			st, err := s.Enter(t.Context(), c)
			if err != nil || !st.Held {
				t.Fatal(st, err)
			}
			last = st.Token
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		armed.Store(true)
		mem[2].Forget()
		_, _ = s.Enter(t.Context(), mutex("ab", "other")) // finds that n3 does not vote
		_ = s.Leave(t.Context(), mutex("ab", "other"))
		for armed.Load() {
			time.Sleep(100 * time.Millisecond)
		}
		apart.Store(false)
		time.Sleep(100 * time.Millisecond)
		// n1 has just been emptied, n3 was before: nobody knows what they granted.
		st, err := s.Enter(t.Context(), mutex("ac", "name"))
		if err == nil && st.Held && st.Token <= last {
			t.Errorf("token %d after %d", st.Token, last)
		}
	})
}

// Of three nodes one was emptied, and one does not tell its mark: what these two have
// granted the third need not know.
func TestANodeIsNotLetInByFewerMarksThanShowEveryGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		var mute atomic.Bool
		mem, all := hook(3, func(i int, op string, _ *driver.Claim) error {
			if i == 1 && op == "mark" && mute.Load() {
				return driver.ErrUnreachable
			}
			return nil
		})
		e := open(t, all, quorum.WithMaxTTL(ttl))
		defer e.Close()
		s := sessionOf(t, e, "s", ttl)
		synctest.Wait()
		mute.Store(true)
		mem[2].Forget()
		if st, err := s.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held { // finds that n3 does not vote
			t.Fatal(st, err)
		}
		time.Sleep(10 * ttl)
		if mem[2].Votes() {
			t.Error("it votes with the mark of one node of three")
		}
		mute.Store(false)
		time.Sleep(10 * ttl)
		if !mem[2].Votes() {
			t.Error("it does not vote again when both tell their marks")
		}
	})
}

func TestANodeThatServesAnotherQuorumDoesNotVoteInThis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		five := nodes(5)
		old := open(t, five[:3])
		defer old.Close()
		forgotten := sessionOf(t, old, "forgotten", ttl) // a client nobody thought of
		synctest.Wait()
		for _, n := range five {
			n.Engine.(*memlock.Engine).Forget() // the roll is deleted on every server, for a new list
		}
		e := open(t, five)
		defer e.Close()
		if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "early", TTL: ttl}); err == nil {
			t.Error("nodes that have just lost everything vote at once")
		}
		time.Sleep(2 * quorum.DefaultMaxTTL)
		s := sessionOf(t, e, "new", ttl)
		if st, err := s.Enter(t.Context(), mutex("bb", "other")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		st, err := forgotten.Enter(t.Context(), mutex("aa", "name"))
		if err == nil && st.Held {
			t.Errorf("nodes that serve a quorum of five granted as a quorum of three")
		}
	})
}

func TestManyClaimsAtOnceAreNotRefusedByNodesThatAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(3, 1)
		w.delay = 5 * time.Millisecond
		e, err := quorum.New(w.client())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		var wg sync.WaitGroup
		var bad atomic.Int32
		var first sync.Once
		for k := range 1500 {
			wg.Go(func() {
				st, err := s.Enter(t.Context(), mutex(fmt.Sprintf("%04x", k), fmt.Sprint("name", k)))
				if err != nil || !st.Held {
					bad.Add(1)
					first.Do(func() { t.Logf("%+v, %v", st, err) })
				}
			})
		}
		wg.Wait()
		if bad.Load() > 0 {
			t.Errorf("%d of 1500 claims on free names were refused by three healthy nodes", bad.Load())
		}
	})
}

func TestABeatIsNotRefusedBecauseManyClaimsAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(3, 1)
		w.delay = 20 * time.Millisecond
		e, err := quorum.New(w.client())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		held := mutex("ff", "held")
		if st, err := s.Enter(t.Context(), held); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		var wg sync.WaitGroup
		for k := range 1500 {
			wg.Go(func() { _, _ = s.Enter(t.Context(), mutex(fmt.Sprintf("%04x", k), fmt.Sprint("name", k))) })
		}
		synctest.Wait()
		out := make([]driver.Standing, 1)
		if err := s.Beat(t.Context(), []driver.Claim{held}, out); err != nil || out[0].Valid == 0 {
			t.Errorf("three healthy nodes: %+v, %v", out[0], err)
		}
		wg.Wait()
	})
}

func TestWaitersDoNotPollWhileAMajorityIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var enters atomic.Int64
		var cut atomic.Bool
		_, all := hook(3, func(i int, op string, c *driver.Claim) error {
			if i == 2 && cut.Load() {
				return driver.ErrUnreachable
			}
			if op == "enter" && i < 2 {
				time.Sleep(time.Millisecond) // the free node answers first
			}
			if op == "enter" && i == 0 {
				enters.Add(1)
			}
			return nil
		})
		a, b := open(t, all), open(t, all)
		defer a.Close()
		defer b.Close()
		holder := pawl.New(a, pawl.WithTTL(30*time.Second), pawl.WithoutRenewal())
		defer holder.Close()
		waiter := pawl.New(b, pawl.WithTTL(30*time.Second))
		defer waiter.Close()
		for _, c := range []*pawl.Client{holder, waiter} {
			l, err := c.Mutex("warm").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Unlock()
		}
		cut.Store(true)
		l, err := holder.Mutex("name").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cut.Store(false) // the third is back, and free
		enters.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = waiter.Mutex("name").Lock(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n := enters.Load(); n > 30 {
			t.Errorf("one waiter asked %d times in ten seconds", n)
		}
		_ = l.Unlock()
	})
}

// a reader's (or a short lease's) confirm rounds took longer than the lease;
// the Leave that undoes it is late, the same Try is entered again.
func TestALateUndoDoesNotEndTheNextGrantOfTheSameTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 60 * time.Millisecond
		var slow atomic.Bool
		var late sync.WaitGroup
		var mem []*memlock.Engine
		var all []quorum.Node
		mem, all = hook(3, func(i int, op string, c *driver.Claim) error {
			if !slow.Load() {
				return nil
			}
			switch op {
			case "enter":
				c.Propose = uint64(i + 1) // no two agree: a confirm is needed
				if i == 0 {
					c.Propose = uint64(time.Now().UnixMicro()) + 10 // above every mark
				}
				time.Sleep(35 * time.Millisecond)
			case "confirm":
				time.Sleep(30 * time.Millisecond)
			case "leave":
				c := *c
				late.Go(func() { // the request is on its way, its caller gives up
					time.Sleep(150 * time.Millisecond)
					s, _ := mem[i].Open(context.Background(), driver.SessionOptions{ID: "wire", TTL: ttl})
					_ = s.Leave(context.Background(), c)
				})
				time.Sleep(50 * time.Millisecond)
				return context.DeadlineExceeded
			}
			return nil
		})
		e, rivals := open(t, all), open(t, all)
		defer e.Close()
		defer rivals.Close()
		s, rival := sessionOf(t, e, "s", ttl), sessionOf(t, rivals, "rival", ttl)
		slow.Store(true)
		c := mutex("aa", "name")
		began := time.Now()
		st, err := s.Enter(t.Context(), c)
		t.Logf("first: %+v, %v", st, err)
		if took := time.Since(began); st.Held && took >= ttl {
			t.Errorf("held for %v by answers that took %v", st.Valid, took)
		}
		if err == nil && !st.Held {
			c.Try++ // what the core does after an answer; after an error it repeats the same Try
		}
		slow.Store(false)
		time.Sleep(60 * time.Millisecond)
		st, err = s.Enter(t.Context(), c)
		if err != nil || !st.Held {
			t.Fatal(st, err)
		}
		granted := time.Now()
		for time.Since(granted) < ttl*8/10 {
			if got, err := rival.Enter(t.Context(), mutex(fmt.Sprintf("b%d", time.Since(granted)), "name")); err == nil && got.Held {
				t.Errorf("a rival holds it %v after the grant that lives %v", time.Since(granted), st.Valid)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		late.Wait()
	})
}

// The Leave was sent and is long on its way to one node; the claim is entered again.
func TestALeaveThatIsOnItsWayDoesNotMeetTheNextEnterOfTheSameTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrives := make(chan struct{})
		mem, all := hook(3, func(i int, op string, _ *driver.Claim) error {
			if i == 2 && op == "leave" {
				<-arrives
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		c := mutex("aa", "name")
		for again := range 2 {
			if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
				t.Fatal(st, err)
			}
			time.Sleep(10 * time.Millisecond) // until it is at every node that can be asked
			if again > 0 {
				break
			}
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		close(arrives)
		synctest.Wait()
		for i, n := range mem {
			if line, err := n.Line(t.Context(), c.Name); err != nil || len(line) != 1 {
				t.Errorf("n%d has %+v, %v of a claim that is held", i+1, line, err)
			}
		}
	})
}

// heldAlone enters a claim, which is to be granted at every node, and returns its entry.
func heldAlone(t *testing.T, e driver.Engine, s driver.Session, c driver.Claim) driver.Entry {
	t.Helper()
	if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	time.Sleep(10 * time.Millisecond) // until it is at every node
	line, err := e.Line(t.Context(), c.Name)
	if err != nil || len(line) != 1 {
		t.Fatal(line, err)
	}
	return line[0]
}

// It was broken, and another has held the name since: what its session knows of it from
// before is over, whatever the nodes grant now.
func TestAClaimThatIsEnteredAgainAfterItWasBrokenHasANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, nodes(3))
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		c, next := mutex("aa", "name"), mutex("bb", "name")
		entry := heldAlone(t, e, s, c)
		if err := e.Evict(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		between, err := s.Enter(t.Context(), next)
		if err != nil || !between.Held {
			t.Fatal(between, err)
		}
		time.Sleep(10 * time.Millisecond)
		if err := s.Leave(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held || st.Token <= between.Token {
			t.Errorf("%+v, %v; another has held the name with token %d", st, err, between.Token)
		}
	})
}

func TestEnterOnASessionThatIsBeingClosedIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := hook(3, func(_ int, op string, _ *driver.Claim) error {
			if op == "enter" {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", time.Second)
		type answer struct {
			st  driver.Standing
			err error
		}
		got := make(chan answer, 1)
		go func() {
			st, err := s.Enter(t.Context(), mutex("aa", "name"))
			got <- answer{st, err}
		}()
		time.Sleep(time.Millisecond)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := <-got; a.err == nil && a.st.Held {
			t.Errorf("held, after Close has given it back: %+v", a.st)
		}
	})
}
