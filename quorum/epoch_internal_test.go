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

// A gatedNode blocks Enter and fails Confirm as a test tells it.
type gatedNode struct {
	*memlock.Engine
	enter   chan struct{} // Enter waits until it is closed; nil: Enter does not wait
	confirm error
}

func (g *gatedNode) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := g.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &gatedSession{s, s.(driver.Voter), g}, nil
}

type gatedSession struct {
	driver.Session
	driver.Voter
	g *gatedNode
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
		var at []*gatedNode
		for i := range 3 {
			at = append(at, &gatedNode{Engine: memlock.New()})
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
		for k := range 5 { // n2's mark is above the others'
			c := driver.Claim{ID: fmt.Sprintf("%02x", k), Try: 1, Name: "other", Need: 1, Limit: 1}
			if _, err := plain.Enter(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			_ = plain.Leave(t.Context(), c)
		}
		at[1].confirm = driver.ErrUnreachable // n2's confirmation is lost
		at[2].enter = make(chan struct{})     // the Enter reaches n3 late
		got := make(chan driver.Standing, 1)
		go func() {
			st, _ := s.Enter(t.Context(), driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1})
			got <- st
		}()
		synctest.Wait()
		epoch := raise(t, e, at[2].Engine, 0) // a repairer raises n3 first
		close(at[2].enter)
		if st := <-got; st.Held {
			t.Errorf("held, though n1 confirmed in epoch %d and n3 in %d", epoch, epoch+1)
		}
	})
}

// threeNodes opens an engine on three nodes in memory.
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

// raise moves one node to the next epoch, sets its mark, and returns the previous epoch.
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

// A repairer died after it had raised the epoch of one node of three. Grants of that node
// and of another are never combined, and a claim that gets both wakes the repairer.
func TestNodesThatWereLeftInDifferentEpochsAreRepaired(t *testing.T) {
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
				t.Errorf("n%d has an epoch of its own, and the name cannot be locked: %+v, %v", raised+1, st, err)
			}
		})
	}
}

// The marks are ahead of all clocks, as after clocks were set back, and the nodes lose
// their data one after the other.
func TestNodesThatLostTheirMarkGetItFromTheOthers(t *testing.T) {
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
