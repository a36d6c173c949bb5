package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Leave gives the claim back at every node that was asked for it, whether or not
// it had granted, and comes back soon after no majority can hold it.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.e.unwait(c, false)
	s.mu.Lock()
	w := s.claims[c.ID]
	switch {
	case w == nil:
		w = s.blank(c)
		w.strange = true
		s.claims[c.ID] = w
	case w.claim.Try > c.Try:
		s.mu.Unlock()
		return driver.ErrGone // it has gone on
	}
	held := w.token != 0
	s.mu.Unlock()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(s.seats))
	errs := make([]error, len(s.seats))
	asked := 0
	if !s.leaveAll(w, func(i int) func(error) {
		asked++
		errs[i] = errWaiting
		return func(err error) { answers <- answer{i, err} }
	}) {
		return driver.ErrGone
	}
	sent := time.Now()
	var grace <-chan time.Time
	absent := len(s.seats) - asked // it is not there, as where it is gone
	answered, ended, gone := absent, 0, absent
	for heard := 0; heard < asked; heard++ {
		select {
		case a := <-answers:
			errs[a.i] = a.err
			if a.err == nil {
				ended++
			} else if errors.Is(a.err, driver.ErrGone) {
				gone++
			}
			answered = ended + gone
		case <-grace:
			heard = asked
		case <-ctx.Done():
			return ctx.Err()
		}
		if answered >= s.e.majority && grace == nil {
			timer := time.NewTimer(min(time.Since(sent)+minGrace, maxGrace))
			defer timer.Stop()
			grace = timer.C
		}
	}
	switch {
	case answered < s.e.majority:
		return s.short(answered, errs)
	case ended == 0, held && gone > len(s.seats)-s.e.majority: // no majority can have held it any more
		return driver.ErrGone
	}
	return nil
}

// Once a majority has answered, the claim is given back. The others have as long
// again to answer: two readers that leave at once would otherwise each be gone
// from a majority, and a writer that tries next would meet one here and the
// other there. A node that does not answer costs no more than that.
const (
	minGrace = soon
	maxGrace = 20 * time.Millisecond
)

// leaveAll gives the claim back at all nodes that were asked for it and for which
// done is not nil, in one step: once it is known to be over, the calls that end it
// are on their way, and no node is asked any more.
func (s *session) leaveAll(w *wish, done func(i int) func(error)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	w.endLocked()
	c := w.node()
	g := s.group(len(s.seats))
	for i := range s.seats {
		var told func(error)
		if w.strange || w.last[i] != nil {
			told = done(i)
		}
		if told == nil {
			g.done()
		} else {
			s.callAtLocked(g, i, w, func(ctx context.Context, p *place) error { return p.Leave(ctx, c) }, told)
		}
	}
	s.forgetLocked(w)
	return true
}
