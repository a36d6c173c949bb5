package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// session is one client's claims, with a seat at every node. Calls at the nodes
// run on the session's own context: the caller goes on when a majority has
// answered, the others answer when they can.
type session struct {
	e      *Engine
	o      driver.SessionOptions
	seats  []*seat
	ctx    context.Context // ends with Close
	finish context.CancelFunc

	crew *driverkit.Pool

	mu     sync.Mutex // guards what follows
	claims map[string]*wish
	closed bool
}

// A wish is what a session knows of one of its claims. It is kept until no call
// about it is under way, even if it is over: at every node calls about a claim
// follow one another, so that a Leave cannot overtake the Enter that it undoes,
// nor meet a later one of the same Try.
type wish struct {
	claim   driver.Claim
	token   uint64          // once held
	granted []uint64        // what each node answered last; 0: nothing
	tokens  []uint64        // that nodes were asked to confirm, and may show since
	last    []chan struct{} // closed when the last call at a node has come back; nil: none was made
	pending int             // calls under way
	later   *poll           // will ask the rest of the nodes; nil: all were, or will not be
	over    bool            // it was left
	strange bool            // the session did not enter it: any node may have it
}

func newSession(e *Engine, o driver.SessionOptions) *session {
	s := &session{e: e, o: o, claims: map[string]*wish{}}
	s.ctx, s.finish = context.WithCancel(context.WithoutCancel(e.ctx)) // Engine.Close closes the session, which has things to say first
	o.TTL += drift(o.TTL)
	s.crew = driverkit.NewPool(2 * len(e.nodes))
	for i, n := range e.nodes {
		s.seats = append(s.seats, newSeat(n, o, e.list, func(store string) error { return e.meet(i, store) }))
	}
	return s
}

// TTL is what was asked for: the nodes keep claims a little longer, so that
// clocks which run at different speeds do not matter.
func (s *session) TTL() time.Duration { return s.o.TTL }

// Lost is nil: no node can speak for all.
func (s *session) Lost() <-chan struct{} { return nil }

// group returns what bounds n calls that are made together.
func (s *session) group(n int) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithTimeout(s.ctx, limit(s.o.TTL))
	g.left.Store(int32(n))
	return g
}

// goAtLocked makes one call at one node on a goroutine of the session, and hands
// its error to done.
func (s *session) goAtLocked(g *group, i int, f func(context.Context, *place) error, done func(error)) {
	k := s.seats[i]
	k.calls.Add(1)
	s.crew.Do(func() {
		defer k.calls.Done()
		defer g.done()
		done(k.call(g.ctx, f))
	})
}

// everywhere makes a call at every node and waits until enough says so, all have
// answered, or ctx ends. Errors come back by node; a node that was not waited
// for has errWaiting.
func (s *session) everywhere(ctx context.Context, f func(ctx context.Context, i int, p *place) error, enough func(errs []error) bool) ([]error, error) {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(s.seats))
	errs := make([]error, len(s.seats))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errs, driver.ErrGone
	}
	g := s.group(len(s.seats))
	for i := range s.seats {
		errs[i] = errWaiting
		s.goAtLocked(g, i, func(ctx context.Context, p *place) error { return f(ctx, i, p) },
			func(err error) { answers <- answer{i, err} })
	}
	s.mu.Unlock()
	for range s.seats {
		select {
		case a := <-answers:
			errs[a.i] = a.err
		case <-ctx.Done():
			return errs, ctx.Err()
		}
		if enough != nil && enough(errs) {
			break
		}
	}
	return errs, nil
}

var errWaiting = errors.New("has not answered yet")

// short says that fewer nodes than needed answered, and why.
func (s *session) short(answered int, errs []error) error {
	var told []error
	transient := false
	for i, err := range errs {
		switch {
		case err == nil:
			continue
		case errors.Is(err, errWaiting):
			err = &nodeError{s.seats[i].node.Name, err}
			transient = true
		case errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrNoVote), errors.Is(err, driver.ErrGone):
			transient = true
		}
		told = append(told, hide(err))
	}
	err := fmt.Errorf("quorum: %d of %d nodes answered, %d are needed: %w", answered, len(s.seats), s.e.majority, driver.Join(told...))
	if transient {
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return err
}

// Close gives back what the session has, waits for the nodes that answer, and
// ends its seats. It is an error if they are no majority.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	var strange []driver.Claim
	for _, w := range s.claims {
		if w.strange {
			strange = append(strange, w.node())
		}
	}
	s.closed = true
	errs := make([]error, len(s.seats))
	for i, k := range s.seats {
		s.crew.Do(func() { errs[i] = k.vacate(s.ctx, strange) })
	}
	s.mu.Unlock()
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()

	done := make(chan struct{})
	go func() { // ends soon after finish at the latest
		defer close(done)
		s.crew.Close()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.finish()
	<-done
	answered := 0
	for _, err := range errs {
		if err == nil {
			answered++
		}
	}
	if answered < s.e.majority {
		return s.short(answered, errs)
	}
	return nil
}

// wish returns what the session knows of c, made anew for a later Try and for
// one that was left. It is nil if the session has gone on to a later one.
func (s *session) wish(c driver.Claim) *wish {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.claims[c.ID]
	switch {
	case w == nil || w.over || w.claim.Try < c.Try:
		fresh := s.blank(c)
		if w != nil {
			copy(fresh.last, w.last)
			w.endLocked()
		}
		s.claims[c.ID] = fresh
		return fresh
	case w.claim.Try > c.Try:
		return nil
	}
	return w
}

func (s *session) blank(c driver.Claim) *wish {
	n := len(s.seats)
	return &wish{claim: c, granted: make([]uint64, n), last: make([]chan struct{}, n)}
}

// callAtLocked makes a call about a claim at node i, after the one before it.
func (s *session) callAtLocked(g *group, i int, w *wish, f func(context.Context, *place) error, done func(error)) {
	before, back := w.last[i], make(chan struct{})
	w.last[i] = back
	w.pending++
	s.goAtLocked(g, i, func(ctx context.Context, p *place) error {
		after(ctx, before)
		return f(ctx, p)
	}, func(err error) {
		done(err)
		close(back)
		s.mu.Lock()
		defer s.mu.Unlock()
		w.pending--
		s.forgetLocked(w)
	})
}

// forgetLocked drops a claim that is over, unless it was entered again.
func (s *session) forgetLocked(w *wish) {
	if w.over && w.pending == 0 && s.claims[w.claim.ID] == w {
		delete(s.claims, w.claim.ID)
	}
}

// endLocked makes a wish one that no further node is asked for.
func (w *wish) endLocked() {
	w.over = true
	if p := w.later; p != nil {
		p.timer.Stop()
		p.askRestLocked()
	}
}

// node is the claim as the nodes see it: without a proposal that is old by now.
func (w *wish) node() driver.Claim {
	c := w.claim
	c.Propose = 0
	return c
}

// after waits for the call before.
func after(ctx context.Context, before <-chan struct{}) {
	if before == nil {
		return
	}
	select {
	case <-before:
	case <-ctx.Done():
	}
}

var _ driver.Session = (*session)(nil)
