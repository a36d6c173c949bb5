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
		var all []Node
		for i := range 3 {
			all = append(all, Node{Name: fmt.Sprint("n", i), Engine: memlock.New()})
		}
		e, err := New(all)
		if err != nil {
			t.Fatal(err)
		}
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
		go func() { // somebody always waits
			for try := 1; ctx.Err() == nil; try++ {
				b := claim("bb")
				b.Try = try
				_, _ = s.Enter(ctx, b)
				_, _ = s.Await(ctx, claim("bb"), driver.Standing{})
			}
		}()
		synctest.Wait()
		for k := range 1000 { // others only try, and leave no trace
			c := claim(fmt.Sprintf("%08x", k))
			if st, err := s.Enter(t.Context(), c); err != nil || st.Held {
				t.Fatal(st, err)
			}
			_ = s.Leave(t.Context(), c)
		}
		e.mu.Lock()
		w := e.watches["name"]
		e.mu.Unlock()
		w.mu.Lock()
		n := len(w.seen)
		w.mu.Unlock()
		if n > 100 {
			t.Errorf("the watch remembers %d claims, one waits", n)
		}
	})
}

// a node that ends sessions, as etcd or ZooKeeper do.
type mortal struct {
	*memlock.Engine
	opened atomic.Int32
	slow   atomic.Bool
}

func (m *mortal) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := m.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &mortalSession{s, s.(driver.Voter), m, m.opened.Add(1)}, nil
}

type mortalSession struct {
	driver.Session
	driver.Voter
	m *mortal
	n int32
}

func (s *mortalSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if s.n == 1 && s.m.slow.Load() { // the store has ended the first session; one answer comes late
		if c.Name == "late" {
			time.Sleep(100 * time.Millisecond)
		}
		return driver.Standing{}, driver.ErrGone
	}
	return s.Session.Enter(ctx, c)
}

func TestALateWordOfAnEndedSeatDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Node
		var mem []*mortal
		for i := range 3 {
			mem = append(mem, &mortal{Engine: memlock.New()})
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
			m.slow.Store(true)
		}
		late := make(chan struct{})
		go func() { // in flight on the old seats
			_, _ = s.Enter(t.Context(), claim("aa", "late"))
			close(late)
		}()
		synctest.Wait()
		_, err = s.Enter(t.Context(), claim("bb", "name")) // learns that the seats have ended
		t.Log(err)
		st, err := s.Enter(t.Context(), claim("bb", "name")) // on new seats
		if err != nil || !st.Held {
			t.Fatal(st, err)
		}
		<-late
		synctest.Wait()
		out := make([]driver.Standing, 1)
		err = s.Beat(t.Context(), []driver.Claim{claim("bb", "name")}, out)
		if err != nil || !out[0].Held {
			t.Errorf("a claim of the new seats was ended by word of the old ones: %+v, %v", out[0], errors.Join(err))
		}
	})
}
