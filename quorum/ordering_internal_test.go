package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

func TestAWatchForgetsClaimsThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := threeNodes(t)
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		claim := func(id string) driver.Claim { return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1} }
		if st, err := s.Enter(t.Context(), claim("aa")); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // one claim always waits
			for try := 1; ctx.Err() == nil; try++ {
				b := claim("bb")
				b.Try = try
				_, _ = s.Enter(ctx, b)
				_, _ = s.Await(ctx, claim("bb"), driver.Standing{})
			}
		}()
		synctest.Wait()
		for k := range 1000 { // others only try
			c := claim(fmt.Sprintf("%08x", k))
			if st, err := s.Enter(t.Context(), c); err != nil || st.Held {
				t.Fatal(st, err)
			}
			_ = s.Leave(t.Context(), c)
		}
		w := e.watches.find("name")
		w.mu.Lock()
		n := len(w.seen)
		w.mu.Unlock()
		if n > 100 {
			t.Errorf("the watch remembers %d claims, one waits", n)
		}
	})
}

// An endingNode ends its first sessions on request, as etcd or ZooKeeper may.
type endingNode struct {
	*memlock.Engine
	opened atomic.Int32
	ended  atomic.Bool // the first session
}

func (m *endingNode) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := m.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &endingSession{s, s.(driver.Voter), m, m.opened.Add(1)}, nil
}

type endingSession struct {
	driver.Session
	driver.Voter
	m *endingNode
	n int32
}

func (s *endingSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if s.n == 1 && s.m.ended.Load() { // the answer for one name is late
		if c.Name == "late" {
			time.Sleep(100 * time.Millisecond)
		}
		return driver.Standing{}, driver.ErrGone
	}
	return s.Session.Enter(ctx, c)
}

func TestALateAnswerOfAnEndedNodeSessionDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Node
		var mem []*endingNode
		for i := range 3 {
			mem = append(mem, &endingNode{Engine: memlock.New()})
			all = append(all, Node{Name: fmt.Sprint("n", i), Engine: mem[i]})
		}
		e, err := New(all)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		claim := func(id, name string) driver.Claim { return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1} }
		synctest.Wait()
		for _, m := range mem {
			m.ended.Store(true)
		}
		late := make(chan struct{})
		go func() { // in flight on the old node sessions
			_, _ = s.Enter(t.Context(), claim("aa", "late"))
			close(late)
		}()
		synctest.Wait()
		_, err = s.Enter(t.Context(), claim("bb", "name")) // learns that the node sessions have ended
		t.Log(err)
		st, err := s.Enter(t.Context(), claim("bb", "name")) // on new node sessions
		if err != nil || !st.Held {
			t.Fatal(st, err)
		}
		<-late
		synctest.Wait()
		out := make([]driver.Standing, 1)
		err = s.Beat(t.Context(), []driver.Claim{claim("bb", "name")}, out)
		if err != nil || !out[0].Held {
			t.Errorf("a claim of the new node sessions was ended by an answer of the old ones: %+v, %v", out[0], errors.Join(err))
		}
	})
}

// Of five nodes a majority has granted in the new epoch, two of them the same token. A
// third that granted the token in the old epoch does not count.
func TestATokenIsNotAgreedOnAcrossEpochs(t *testing.T) {
	grant := func(node int, token, epoch uint64) vote {
		return vote{node: node, st: driver.Standing{Held: true, Token: token, Epoch: epoch}}
	}
	vs := votes{nodes: 5, majority: 3, all: []vote{grant(0, 7, 1), grant(1, 7, 2), grant(2, 9, 2), grant(3, 7, 2)}}
	if !vs.won() {
		t.Error("a majority of one epoch has not won")
	}
	if token, agreed := vs.token(); agreed || token != 9 {
		t.Errorf("token %d, agreed %t: it has to be the highest, and confirmed", token, agreed)
	}
	vs.all = vs.all[:3]
	if vs.won() {
		t.Error("a majority across epochs has won")
	}
}

func TestAHoldIsListedForAsLongAsAMajorityHasIt(t *testing.T) {
	at := func(left time.Duration) driver.Entry {
		return driver.Entry{Claim: driver.Claim{ID: "aa", Try: 1, Name: "name"}, Held: true, Fence: 1, Left: left}
	}
	for _, group := range [][]driver.Entry{{at(9), at(1), at(5)}, {at(9), at(5)}} {
		if got := combine(group, 2).Left; got != 5 {
			t.Errorf("of %d nodes that have it the second last forgets it after 5, and it is listed for %d more", len(group), got)
		}
	}
}
