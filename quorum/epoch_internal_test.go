package quorum

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

type gated struct {
	*memlock.Engine
	enter   chan struct{} // Enter waits for it; nil: at once
	confirm error
}

func (g *gated) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := g.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &gatedSession{s, s.(driver.Voter), g}, nil
}

type gatedSession struct {
	driver.Session
	driver.Voter
	g *gated
}

func (s *gatedSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if s.g.enter != nil {
		<-s.g.enter
	}
	c.Propose = 0
	return s.Session.Enter(ctx, c)
}

func (s *gatedSession) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	if s.g.confirm != nil {
		return false, s.g.confirm
	}
	return s.Voter.Confirm(ctx, c, granted, token)
}

func TestALateGrantOfAnotherEpochConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []Node
		var at []*gated
		for i := range 3 {
			at = append(at, &gated{Engine: memlock.New()})
			nodes = append(nodes, Node{Name: fmt.Sprint("n", i+1), Engine: at[i]})
		}
		e, err := New(nodes)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		plain, _ := at[1].Engine.Open(t.Context(), driver.SessionOptions{ID: "p", TTL: time.Second})
		for k := range 5 { // n2 counts further than the others
			c := driver.Claim{ID: fmt.Sprintf("%02x", k), Try: 1, Name: "other", Need: 1, Limit: 1}
			if _, err := plain.Enter(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			_ = plain.Leave(t.Context(), c)
		}
		at[1].confirm = driver.ErrUnreachable // n2's confirm is lost
		at[2].enter = make(chan struct{})     // n3 hears of the claim late
		got := make(chan driver.Standing, 1)
		go func() {
			st, _ := s.Enter(t.Context(), driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1})
			got <- st
		}()
		synctest.Wait()
		epoch := raise(t, e, at[2].Engine, 0) // a mender raises n3 first
		close(at[2].enter)
		if st := <-got; st.Held {
			t.Errorf("held, though n1 confirmed in epoch %d and n3 in %d", epoch, epoch+1)
		}
	})
}

// threeNodes opens an engine over three nodes in memory.
func threeNodes(t *testing.T, options ...Option) (*Engine, []*memlock.Engine) {
	t.Helper()
	var nodes []Node
	var mem []*memlock.Engine
	for i := range 3 {
		mem = append(mem, memlock.New())
		nodes = append(nodes, Node{Name: fmt.Sprint("n", i+1), Engine: mem[i]})
	}
	e, err := New(nodes, options...)
	if err != nil {
		t.Fatal(err)
	}
	return e, mem
}

// raise has one node begin the next epoch with a mark, and returns the epoch before.
func raise(t *testing.T, e *Engine, at *memlock.Engine, high uint64) uint64 {
	t.Helper()
	m, err := at.Open(t.Context(), driver.SessionOptions{ID: "m", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	v := m.(driver.Voter)
	if _, err := v.Enlist(t.Context(), e.set.ID); err != nil {
		t.Fatal(err)
	}
	_, epoch, _ := v.Mark(t.Context())
	if err := v.Rejoin(t.Context(), high, epoch+1); err != nil {
		t.Fatal(err)
	}
	return epoch
}

// A mender has died when it had raised the epoch of one node of three: grants of that
// one and of another never come together, and whoever meets them has the nodes levelled.
func TestNodesThatWereLeftInDifferentEpochsAreMended(t *testing.T) {
	for raised := range 3 { // two of them are asked first for the name
		synctest.Test(t, func(t *testing.T) {
			e, mem := threeNodes(t)
			defer e.Close()
			s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			raise(t, e, mem[raised], 0)
			c := driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1}
			st, err := s.Enter(t.Context(), c)
			for ; err == nil && !st.Held && c.Try < 10; st, err = s.Enter(t.Context(), c) {
				c.Try++
				time.Sleep(time.Second)
			}
			if err != nil || !st.Held {
				t.Errorf("n%d is in an epoch of its own, and the name is not to be had: %+v, %v", raised+1, st, err)
			}
		})
	}
}

// The marks are ahead of every clock, as clocks that were set back leave them, and the
// nodes lose their data one after the other.
func TestMarksAreHandedOnToNodesThatHaveLostThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		e, mem := threeNodes(t, WithMaxTTL(ttl))
		defer e.Close()
		open := func(id string) driver.Session {
			s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open("s")
		synctest.Wait()
		high := uint64(time.Now().Add(time.Hour).UnixMicro())
		for _, m := range mem {
			raise(t, e, m, high)
		}
		for i, m := range mem {
			m.Forget()
			open(fmt.Sprint(i)) // finds that it does not vote
			time.Sleep(10 * ttl)
			if !m.Votes() {
				t.Fatalf("n%d does not vote again", i+1)
			}
		}
		st, err := s.Enter(t.Context(), driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1})
		if err != nil || !st.Held || st.Token <= high {
			t.Errorf("%+v, %v; the mark was %d", st, err, high)
		}
	})
}
