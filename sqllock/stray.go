package sqllock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// strayGrace is how long a flight that enters claims may go on after its
	// caller has called it off. What was sent cannot be called back: mostly the
	// answer comes meanwhile, and what is entered is known.
	strayGrace = 100 * time.Millisecond
	// strayLife is how long after that it may still arrive, as far as Close cares.
	strayLife = time.Second
)

// A crossing is a flight that enters claims.
type crossing struct {
	args []Args        // as they were sent
	done chan struct{} // closed when the flight has ended
	late time.Time     // if its end was not learnt: when it has arrived, or never will; set before done is closed
}

// cross runs a flight that enters the claims of args. Where the store is away
// the session knows of it until it is certain that nothing of it can arrive any
// more, so that Close ends what it entered.
//
// The flight stays in the caller's goroutine, and one that is called off takes
// strayGrace longer at most: one of its own for every flight would cost a free
// name a fifth of its time.
func (s *session) cross(ctx context.Context, args []*Args, fly func(context.Context) error) error {
	if !s.e.d.Away {
		return fly(ctx)
	}
	x := &crossing{args: make([]Args, len(args)), done: make(chan struct{})}
	for i, a := range args {
		x.args[i] = *a
	}
	if err := s.sets(x); err != nil {
		return err
	}
	// Not cancelled when the flight has ended: it has no parent that would keep it,
	// and its connection is somebody else's then.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(s.life, cancel)()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(strayGrace, cancel) })()
	err := fly(life)
	cut := life.Err() != nil && err != nil
	s.arrived(x, cut)
	switch {
	case cut && s.life.Err() != nil:
		return fmt.Errorf("%w: %w", driver.ErrGone, err)
	case cut && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// sets notes a flight that is about to leave.
func (s *session) sets(x *crossing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	for o := range s.crossings { // of those that were cut
		if !o.late.IsZero() && time.Now().After(o.late) {
			delete(s.crossings, o)
		}
	}
	s.crossings[x] = struct{}{}
	return nil
}

// arrived notes that a flight has ended, or that it was cut.
func (s *session) arrived(x *crossing, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut {
		x.late = time.Now().Add(strayLife)
	} else {
		delete(s.crossings, x)
	}
	close(x.done)
}

// awaitCrossings waits for the flights that were under way when the session was
// closed, and for those that were cut shortly before, and ends what they may have
// entered since Close has looked.
func (s *session) awaitCrossings(ctx context.Context, under []*crossing) {
	if len(under) == 0 {
		s.cut()
		return
	}
	patience, cancel := context.WithTimeout(ctx, strayLife)
	defer cancel()
	for _, x := range under {
		select {
		case <-x.done:
		case <-patience.Done():
		}
	}
	s.cut()
	for _, x := range under {
		<-x.done // soon, now that it was cut
		if !x.late.IsZero() {
			rested(patience, time.Until(x.late))
		}
	}
	if ctx.Err() != nil { // what was cut just now still deserves a try
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
	}
	for _, x := range under {
		for i := range x.args {
			a := &x.args[i]
			a.set(Upto, a.Int(Try))
			_, _ = s.quit(ctx, a, true) // what stays expires
		}
	}
}
