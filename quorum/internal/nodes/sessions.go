package nodes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Sessions is one client's sessions at the nodes of a quorum. Calls do not end with the
// caller's ctx: the caller continues when a majority has answered, and the answers of
// the others are still taken.
type Sessions struct {
	set   *Set
	ttl   time.Duration
	slots []*slot
	pool  *driverkit.Pool

	needRepair func() // called when a node was found not to vote

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	waits    context.Context // ends when Close begins
	endWaits context.CancelFunc

	mu     sync.Mutex // guards closed
	closed bool
}

// Open returns sessions that are opened by the first call at each node. The nodes keep
// what they grant a little longer than o.TTL, so that clocks which run at different
// speeds do not matter. needRepair is called when a node was found not to vote.
func Open(set *Set, o driver.SessionOptions, needRepair func()) *Sessions {
	s := &Sessions{set: set, ttl: o.TTL, pool: driverkit.NewPool(2 * len(set.Nodes)), needRepair: needRepair}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.waits, s.endWaits = context.WithCancel(s.ctx)
	o.TTL += drift(o.TTL)
	for i, n := range set.Nodes {
		s.slots = append(s.slots, &slot{
			engine: n.Engine, options: o, quorum: set.ID, ctx: s.ctx, limit: Limit(s.ttl), needRepair: needRepair,
			checkStore: func(store string) error { return set.setStore(i, store) },
			opening:    make(chan struct{}, 1),
		})
	}
	return s
}

// Limit bounds a call at one node, whatever the settings of the node's client are. It
// delays only callers that need this very node.
func Limit(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 50*time.Millisecond), 2*time.Second)
}

// StragglerWait is how long a caller waits for nodes that have not answered when the
// answers of the others do not decide, but are enough to give up.
func StragglerWait(ttl time.Duration) time.Duration { return Limit(ttl) / 8 }

// A Round is calls at several nodes that share one time limit.
type Round struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   atomic.Int32
}

// Round returns the round of n calls.
func (s *Sessions) Round(n int) *Round {
	r := &Round{}
	r.ctx, r.cancel = context.WithTimeout(s.ctx, Limit(s.ttl))
	r.left.Store(int32(n))
	return r
}

// Done says that one call of the round has returned, or will not be made.
func (r *Round) Done() {
	if r.left.Add(-1) == 0 {
		r.cancel()
	}
}

// Go makes one call of a round at node i on another goroutine, and passes its error to
// done. It reports false, and makes no call, if the sessions are closed.
func (s *Sessions) Go(r *Round, i int, f func(context.Context, *Session) error, done func(error)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		r.Done()
		return false
	}
	k := s.slots[i]
	k.calls.Add(1)
	s.pool.Do(func() {
		defer k.calls.Done()
		defer r.Done()
		done(k.call(r.ctx, f))
	})
	return true
}

// Wait lets f wait at node i for something other than an answer, until ctx ends or Close
// begins. How long that takes says nothing of the node. It returns driver.ErrGone where
// there is no session.
func (s *Sessions) Wait(ctx context.Context, i int, f func(context.Context, *Session) error) error {
	k := s.slots[i]
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrGone
	}
	k.calls.Add(1)
	s.mu.Unlock()
	defer k.calls.Done()
	at := k.session.Load()
	if at == nil {
		return driver.ErrGone
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.waits, cancel)()
	return at.Check(f(ctx, at))
}

// All makes a call at every node and returns the errors by node when enough reports
// true, all nodes have answered, or ctx has ended. A node that was not waited for has
// ErrPending.
func (s *Sessions) All(ctx context.Context, f func(ctx context.Context, i int, at *Session) error, enough func(errs []error) bool) ([]error, error) {
	type answer struct {
		node int
		err  error
	}
	answers := make(chan answer, len(s.slots))
	errs := make([]error, len(s.slots))
	r, open := s.Round(len(s.slots)), true
	for i := range s.slots {
		errs[i] = ErrPending
		open = s.Go(r, i, func(ctx context.Context, at *Session) error { return f(ctx, i, at) },
			func(err error) { answers <- answer{i, err} }) && open
	}
	if !open {
		return errs, driver.ErrGone
	}
	return errs, Gather(ctx, answers, len(errs), func(a answer) time.Duration {
		errs[a.node] = a.err
		if enough != nil && enough(errs) {
			return 0
		}
		return UntilAll
	})
}

// Late reports whether a node's last answer was late, or one is overdue.
func (s *Sessions) Late(i int) bool { return s.slots[i].late.Load() }

// SetLate records that an answer of a node is overdue.
func (s *Sessions) SetLate(i int) { s.slots[i].late.Store(true) }

// Silent reports whether a node was called and has not answered any call for
// StragglerWait.
func (s *Sessions) Silent(i int) bool {
	since := s.slots[i].unansweredSince.Load()
	return since != 0 && time.Now().UnixNano()-since > int64(StragglerWait(s.ttl))
}

// Close waits for the calls in flight, lets last make further ones at every node, and
// closes the sessions. It returns an error if fewer nodes than a majority answered.
func (s *Sessions) Close(ctx context.Context, last func(context.Context, *Session)) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.endWaits()
	errs := make([]error, len(s.slots))
	for i, k := range s.slots {
		s.pool.Do(func() { errs[i] = k.close(last) })
	}
	done := make(chan struct{})
	go func() { // ends soon after cancel at the latest
		defer close(done)
		s.pool.Close()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
	<-done
	answered := 0
	for _, err := range errs {
		if err == nil {
			answered++
		}
	}
	if answered < s.set.Majority {
		return s.set.TooFew(answered, errs)
	}
	return nil
}
