package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A hookedNode calls before ahead of every call of its sessions.
type hookedNode struct {
	*memlock.Engine
	before func(op string, c *driver.Claim) error
}

func (h *hookedNode) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := h.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &hookedSession{s, s.(driver.Voter), h}, nil
}

type hookedSession struct {
	driver.Session
	driver.Voter
	h *hookedNode
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

// hookNodes returns n nodes that all call before.
func hookNodes(n int, before func(i int, op string, c *driver.Claim) error) (mem []*memlock.Engine, all []quorum.Node) {
	for i := range n {
		mem = append(mem, memlock.New())
		all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: &hookedNode{mem[i], func(op string, c *driver.Claim) error { return before(i, op, c) }}})
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

// heldAlone enters a claim, which every node must grant, and returns its entry.
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

func (s *hookedSession) Close(ctx context.Context) error {
	if err := s.h.before("close", nil); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // the request is not sent
	}
	return s.Session.Close(ctx)
}

// A rig is a session on nodes that record which calls they got, and that a test can
// make fail, block or wait.
type rig struct {
	driver.Session
	mem []*memlock.Engine
	all []quorum.Node

	mu     sync.Mutex // guards what follows
	called map[string][]int
	hooks  map[int]func(op string) error // by node: called ahead of every call
}

// withRig runs a test on five nodes.
func withRig(t *testing.T, test func(t *testing.T, r *rig)) { withRigOf(t, 5, test) }

func withRigOf(t *testing.T, n int, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{called: map[string][]int{}, hooks: map[int]func(string) error{}}
		r.mem, r.all = hookNodes(n, func(i int, op string, _ *driver.Claim) error {
			r.mu.Lock()
			r.called[op] = append(r.called[op], i)
			hook := r.hooks[i]
			r.mu.Unlock()
			if hook != nil {
				return hook(op)
			}
			return nil
		})
		e := open(t, r.all)
		defer e.Close()
		r.Session = sessionOf(t, e, "s", 10*time.Second)
		test(t, r)
	})
}

// enter enters a claim, which must be held.
func (r *rig) enter(t *testing.T, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := r.Enter(t.Context(), c)
	if err != nil || !st.Held {
		t.Fatal(st, err)
	}
	return st
}

// atOnce fails if time passes in the bubble while do runs.
func atOnce(t *testing.T, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > 0 {
		t.Errorf("it took %v", took)
	}
}

// calls returns the nodes that got a call since it was last asked, sorted.
func (r *rig) calls(op string) []int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := slices.Sorted(slices.Values(r.called[op]))
	r.called[op] = nil
	return asked
}

// hook makes a node run do ahead of every call; nil: nothing.
func (r *rig) hook(i int, do func(op string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[i] = do
}

// split returns the nodes that are asked first for a name, and the rest.
func (r *rig) split(t *testing.T, name string) (first, rest []int) {
	t.Helper()
	c := mutex("f1", name)
	r.enter(t, c)
	if first = r.calls("enter"); len(first) != len(r.all)/2+1 {
		t.Fatalf("nodes %v were asked at first, of %d", first, len(r.all))
	}
	if err := r.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i := range r.all {
		if !slices.Contains(first, i) {
			rest = append(rest, i)
		}
	}
	r.calls("leave")
	return first, rest
}

// occupy lets another client hold the name at some nodes.
func (r *rig) occupy(t *testing.T, name string, at ...int) {
	t.Helper()
	for _, i := range at {
		if st, err := sessionOf(t, r.mem[i], "stale", time.Minute).Enter(t.Context(), mutex("bb", name)); err != nil || !st.Held {
			t.Fatal(st, err)
		}
	}
}

// mute makes a node not answer until the returned function is called.
func (r *rig) mute(i int) (heal func()) {
	silent := make(chan struct{})
	r.hook(i, func(string) error {
		<-silent
		return context.DeadlineExceeded
	})
	return func() { close(silent) }
}

// refused enters a claim, which must be refused with the holder, long before a call to
// a silent node would time out.
func (r *rig) refused(t *testing.T, c driver.Claim) {
	t.Helper()
	start := time.Now()
	st, err := r.Enter(t.Context(), c)
	if took := time.Since(start); err != nil || st.Held || st.Holder == nil || took > 300*time.Millisecond {
		t.Errorf("%+v, %v after %v", st, err, took)
	}
}
