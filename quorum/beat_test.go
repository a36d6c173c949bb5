package quorum_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A beatNode does not answer a beat for claims whose names it is told, as a server does one
// of whose connections is silent.
type beatNode struct {
	*memlock.Engine
	mu     sync.Mutex // guards what follows
	stuck  string     // the beginning of those names; "": none
	beaten []string   // the names of the last beat, in its order
}

func (n *beatNode) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := n.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &beatSession{s, s.(driver.Voter), n}, nil
}

type beatSession struct {
	driver.Session
	driver.Voter
	n *beatNode
}

func (s *beatSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	s.n.mu.Lock()
	stuck := s.n.stuck
	s.n.beaten = nil
	for _, c := range live {
		s.n.beaten = append(s.n.beaten, c.Name)
	}
	s.n.mu.Unlock()
	silent := false
	for i, c := range live {
		if stuck != "" && strings.HasPrefix(c.Name, stuck) {
			silent = true
		} else if err := s.Session.Beat(ctx, live[i:i+1], out[i:i+1]); err != nil {
			return err
		}
	}
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// beatNodes returns three nodes and a session that holds names at all of them.
func beatNodes(t *testing.T, names ...string) (mem []*beatNode, s driver.Session, live []driver.Claim) {
	var all []quorum.Node
	for i := range 3 {
		mem = append(mem, &beatNode{Engine: memlock.New()})
		all = append(all, quorum.Node{Name: string(rune('a' + i)), Engine: mem[i]})
	}
	e := open(t, all)
	t.Cleanup(func() { _ = e.Close() })
	s = sessionOf(t, e, "s", 6*time.Second)
	for i, name := range names {
		c := mutex(string(rune('a'+i))+"a", name)
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		live = append(live, c)
	}
	time.Sleep(10 * time.Millisecond)
	return mem, s, live
}

func TestABeatThatTwoNodesAnswerInPartRenewsThatPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, s, live := beatNodes(t, "first", "stuck", "last")
		for _, n := range mem[:2] {
			n.stuck = "stuck"
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a sixth of the TTL, as the core does
		defer cancel()
		out := make([]driver.Standing, len(live))
		err := s.Beat(ctx, live, out)
		if !out[0].Held || !out[2].Held || out[0].Valid == 0 || out[2].Valid == 0 {
			t.Errorf("two of three were answered by every node: %+v, %v", out, err)
		}
		if out[1].Valid != 0 || out[1].Gone {
			t.Errorf("one node of three has answered: %+v", out[1])
		}
	})
}

func TestABeatDoesNotWaitForOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, s, live := beatNodes(t, "one", "two")
		mem[1].stuck = "o"
		out := make([]driver.Standing, len(live))
		atOnce(t, func() {
			if err := s.Beat(t.Context(), live, out); err != nil || !out[0].Held || !out[1].Held {
				t.Errorf("%+v, %v", out, err)
			}
		})
	})
}

func TestEveryNodeIsBeatenInTheOrderOfUrgency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, s, live := beatNodes(t, "c", "a", "b")
		if err := s.Beat(t.Context(), live, make([]driver.Standing, len(live))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, n := range mem {
			if !slices.Equal(n.beaten, []string{"c", "a", "b"}) {
				t.Errorf("node %d was beaten for %v", i, n.beaten)
			}
		}
	})
}
