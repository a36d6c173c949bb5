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

func TestWaitersDoNotPollWhileAMajorityIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var enters atomic.Int64
		var cut atomic.Bool
		_, all := hookNodes(3, func(i int, op string, c *driver.Claim) error {
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
		cut.Store(false) // the third is back, and grants
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

// The confirmation took longer than the lease, the Leave that undoes the grant is
// delayed, and the claim is entered again.
func TestALateUndoDoesNotEndTheNextGrantOfTheSameTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 60 * time.Millisecond
		var slow atomic.Bool
		var late sync.WaitGroup
		var mem []*memlock.Engine
		var all []quorum.Node
		mem, all = hookNodes(3, func(i int, op string, c *driver.Claim) error {
			if !slow.Load() {
				return nil
			}
			switch op {
			case "enter":
				c.Propose = uint64(i + 1) // no two nodes grant the same token: it has to be confirmed
				if i == 0 {
					c.Propose = uint64(time.Now().UnixMicro()) + 10 // above every mark
				}
				time.Sleep(35 * time.Millisecond)
			case "confirm":
				time.Sleep(30 * time.Millisecond)
			case "leave":
				c := *c
				late.Go(func() { // the request is delayed, its caller gives up
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
		start := time.Now()
		st, err := s.Enter(t.Context(), c)
		t.Logf("first: %+v, %v", st, err)
		if took := time.Since(start); st.Held && took >= ttl {
			t.Errorf("held for %v by answers that took %v", st.Valid, took)
		}
		if err == nil && !st.Held {
			c.Try++ // as the core does after an answer; after an error it repeats the Try
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

// A Leave is delayed on its way to one node, and the claim is entered again.
func TestADelayedLeaveDoesNotUndoTheNextEnterOfTheSameTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrives := make(chan struct{})
		mem, all := hookNodes(3, func(i int, op string, _ *driver.Claim) error {
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
			time.Sleep(10 * time.Millisecond) // until it is at every node that is free
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

// The claim was evicted, and another has held the name since: what its session knows of
// the earlier hold is void, whatever the nodes grant now.
func TestAClaimThatIsEnteredAgainAfterEvictionGetsANewToken(t *testing.T) {
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
		_, all := hookNodes(3, func(_ int, op string, _ *driver.Claim) error {
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

// A node ends its session, as etcd or ZooKeeper may, and the answer to one Enter is late.
func TestALateAnswerOfAnEndedNodeSessionDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended [3]atomic.Bool
		_, all := hookNodes(3, func(i int, op string, c *driver.Claim) error {
			switch {
			case op == "close":
				ended[i].Store(false)
			case op == "enter" && ended[i].Load():
				if c.Name == "late" {
					time.Sleep(100 * time.Millisecond)
				}
				return driver.ErrGone
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", time.Second)
		synctest.Wait()
		for i := range ended {
			ended[i].Store(true)
		}
		late := make(chan struct{})
		go func() { // in flight on the old node sessions
			_, _ = s.Enter(t.Context(), mutex("aa", "late"))
			close(late)
		}()
		synctest.Wait()
		c := mutex("bb", "name")
		_, err := s.Enter(t.Context(), c) // learns that the node sessions have ended
		t.Log(err)
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held { // on new node sessions
			t.Fatal(st, err)
		}
		<-late
		synctest.Wait()
		out := make([]driver.Standing, 1)
		if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
			t.Errorf("a claim of the new node sessions was ended by an answer of the old ones: %+v, %v", out[0], err)
		}
	})
}
