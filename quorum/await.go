package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/jitter"
)

// minWait is the shortest time after which an Await without a turn returns.
const minWait = 10 * time.Millisecond

// lookEvery is when a waiter looks for the first time whether the line it is in moves.
const lookEvery = time.Second

// Await waits for the claim's turn at a node, and then for the votes of a majority. Without
// a turn, or the votes, it says only that the core may enter again.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	began := time.Now()
	cs := s.stateOf(c)
	if cs == nil {
		return driver.Standing{Gone: true}, nil
	}
	t := &turn{s: s, cs: cs, claim: cs.atNode()}
	t.claim.Queue = true
	token, until := t.take(ctx)
	if token == 0 {
		s.leaveNodes(cs, func(int) func(error) { return func(error) {} })
	}
	switch s.mu.Lock(); {
	case s.closed:
		defer s.mu.Unlock()
		return driver.Standing{}, driver.ErrGone
	case token != 0:
		defer s.mu.Unlock()
		cs.token = token
		return driver.Standing{Held: true, Token: token, Valid: until.Sub(began)}, nil
	}
	s.mu.Unlock()
	if took := time.Since(began); took < minWait {
		driverkit.Pause(ctx, minWait/2+jitter.N(minWait/2))
	}
	return driver.Standing{Ahead: -1}, ctx.Err()
}

// take returns the claim's token and until when it is held; 0: it is not held.
func (t *turn) take(ctx context.Context) (token uint64, until time.Time) {
	host, in := t.join(ctx)
	if !in || !t.wait(ctx, &host) {
		return 0, time.Time{}
	}
	return t.win(ctx, host)
}

// join enters the line of the first node of the circle that answers in time.
func (t *turn) join(ctx context.Context) (host vote, in bool) {
	first := t.s.e.circle(t.claim.Name)[:len(t.s.e.set.Nodes)-t.s.e.set.Majority+1] // any other is followed by fewer than a majority needs
	usable := slices.DeleteFunc(slices.Clone(first), func(i int) bool {
		return t.s.nodes.Silent(i) || t.s.e.stalled.is(t.claim.Name, i)
	})
	if len(usable) == 0 {
		usable = first
	}
	for _, i := range usable {
		sent := time.Now()
		if host = t.askOne(ctx, i, t.s.e.proposer.propose()); host.granted() || host.waits() {
			t.epoch, t.took = host.st.Epoch, time.Since(sent)
			return host, true
		}
	}
	return vote{}, false
}

// wait returns true when the node whose line the claim is in lets it in.
func (t *turn) wait(ctx context.Context, host *vote) bool {
	longest := t.s.ttl / 3 // within which its place has to be prolonged
	for every := min(longest, lookEvery); !host.granted(); every = min(longest, 2*every) {
		holder, look := holderOf(host.st), time.Now().Add(every)
		if t.waitAt(ctx, host, look) {
			return true
		}
		if ctx.Err() != nil || time.Now().Before(look) {
			return false
		}
		*host = t.askOne(ctx, host.node, 0) // which prolongs its place
		moves := func() bool { return host.granted() || holderOf(host.st) != holder }
		stands := host.waits() && !moves() && !t.isHeld(ctx, *host)
		if stands { // unless it was just being given back, which this node has heard of by now
			*host = t.askOne(ctx, host.node, 0)
		}
		switch {
		case host.granted():
		case !host.waits():
			return false
		case moves():
			every = min(longest, lookEvery) / 2
		case stands:
			t.s.e.stalled.add(t.claim.Name, host.node, time.Now().Add(t.s.ttl))
			return false
		}
	}
	return true
}

// Watch reports departures from the name's lines, one for each time that a majority of
// the nodes has reported one.
func (e *Engine) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if err := e.sessions.Begin(ctx); err != nil {
		return nil, err
	}
	w, err := e.watches.open(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		w.release()
		return nil, ctx.Err()
	case <-time.After(maxPause): // go on with the nodes that are watched
	}
	departures, seen := make(chan struct{}, 1), w.snapshot()
	if err := e.sessions.Go(func(engine context.Context) {
		defer context.AfterFunc(engine, w.cancel)()
		w.forward(ctx, seen, departures)
	}); err != nil {
		w.release()
		return nil, err
	}
	return departures, nil
}

// forward reports on departures each time that a majority of the counts has risen, and
// closes it when ctx or the watch ends.
func (w *watch) forward(ctx context.Context, seen []uint64, departures chan<- struct{}) {
	defer close(departures)
	defer w.release()
	for {
		risen, changed := w.risen(seen)
		if risen {
			seen = w.snapshot()
			driverkit.Signal(departures)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-w.ctx.Done():
			return
		}
	}
}

var _ driver.Watcher = (*Engine)(nil)
