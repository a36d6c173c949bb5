package nodes

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// An exclusiveNode reports a session that is opened while another one is not closed.
type exclusiveNode struct {
	*memlock.Engine
	t    *testing.T
	open atomic.Int32
}

func (n *exclusiveNode) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := n.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if n.open.Add(1) > 1 {
		n.t.Error("the node has two sessions of one ID")
	}
	return &exclusiveSession{s, s.(driver.Voter), n}, nil
}

type exclusiveSession struct {
	driver.Session
	driver.Voter
	n *exclusiveNode
}

func (s *exclusiveSession) Close(ctx context.Context) error {
	time.Sleep(10 * time.Millisecond)
	s.n.open.Add(-1)
	return s.Session.Close(ctx)
}

// Claims are known by ID and Try. If the next session at a node were opened before the
// ended one is closed, that Close could end what the next one has entered.
func TestAnEndedSessionIsClosedBeforeTheNextIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Node
		for i := range 3 {
			all = append(all, Node{Name: fmt.Sprint("n", i), Engine: &exclusiveNode{Engine: memlock.New(), t: t}})
		}
		set, err := NewSet(all, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := Open(set, driver.SessionOptions{ID: "s", TTL: time.Second}, func() {})
		defer s.Close(t.Context(), nil)
		if err := s.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 { // several calls learn at the same time that the session has ended
			go s.All(t.Context(), func(_ context.Context, _ int, at *Session) error { return at.Check(driver.ErrGone) }, nil)
		}
		synctest.Wait()
		errs, err := s.All(t.Context(), func(context.Context, int, *Session) error { return nil }, nil)
		if err != nil || driver.Join(errs...) != nil {
			t.Error(err, errs)
		}
	})
}
