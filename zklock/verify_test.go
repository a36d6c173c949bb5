package zklock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// obstruct has whoever wants a watch on c's node wait until free is called, as behind
// somebody whose request for it has not been answered, and fails.
func obstruct(s *session, c driver.Claim) (free func()) {
	s.mu.Lock()
	key := watchKey{path: s.e.linePath(c.Name) + "/" + s.spots[c.ID].node}
	s.mu.Unlock()
	w, _ := s.l.watchOf(key)
	return sync.OnceFunc(func() { s.l.forget(key, w, errors.New("failed")) })
}

func TestABeatAnswersForThoseItHasSeenToAndTheNextForTheRest(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, []string{one(t)}, Path(pathOf(t))), 10*time.Second)
	a, b := mutex(), mutex()
	b.Name = "other"
	hold(t, s, a)
	hold(t, s, b)
	free := obstruct(s, b)
	defer free()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out := make([]driver.Standing, 2)
	if err := s.Beat(ctx, []driver.Claim{a, b}, out); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a beat that has not seen to all came back with %v", err)
	}
	if !out[0].Held || out[0].Valid == 0 || out[1] != (driver.Standing{}) {
		t.Errorf("it says %+v", out)
	}
	free()
	if err := s.Beat(t.Context(), []driver.Claim{a, b}, out); err != nil || !out[0].Held || !out[1].Held || out[1].Valid == 0 {
		t.Errorf("the next says %+v, %v", out, err)
	}
}

// Who comes while a crowd is verified would take the servers' time from those who have
// little left.
func TestNewcomersWaitWhileACrowdIsVerified(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, []string{one(t)}, Path(pathOf(t))), 10*time.Second)
	all := make([]driver.Claim, crowd)
	for i := range all {
		all[i] = mutex()
		all[i].Name = "crowd/" + all[i].ID
	}
	if _, err := s.EnterAll(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	free := obstruct(s, all[crowd-1])
	defer free()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out := make([]driver.Standing, len(all))
	_ = s.Beat(ctx, all, out) // it goes on

	late := mutex()
	brief, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	if _, err := s.Enter(brief, late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enter came back with %v", err)
	}
	free()
	hold(t, s, late)
	if err := s.Beat(t.Context(), all, out); err != nil {
		t.Fatal(err)
	}
	for i, st := range out {
		if !st.Held || st.Valid == 0 {
			t.Fatalf("claim %d: %+v", i, st)
		}
	}
}

// A beat is about to ask for the node of a claim when the claim enters anew, with a
// further try that ends that node: of the new one the answer says nothing.
func TestABeatDoesNotForgetAClaimThatEntersAnew(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, []string{one(t)}, Path(pathOf(t))), 10*time.Second)
	c := mutex()
	hold(t, s, c)
	free := obstruct(s, c)
	defer free()
	s.mu.Lock()
	sp := s.spots[c.ID]
	s.mu.Unlock()
	var beat sync.WaitGroup
	beat.Go(func() { _ = s.verify(t.Context(), sp) })
	time.Sleep(100 * time.Millisecond) // until it knows the node
	c.Try++
	hold(t, s, c)
	free()
	beat.Wait()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
		t.Errorf("%+v, %v", out[0], err)
	}
}
