package sqllock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// strayLife is how long a flight may go on after its caller has gone, and how
// long Close waits for those that are under way. It bounds how long a connection
// is kept from others by a row that is held, or by a server that is silent.
const strayLife = time.Second

// A crossing is a flight that enters claims, while it is under way.
type crossing struct {
	args []Args        // as they were sent
	done chan struct{} // closed when the flight has ended
}

// cross runs a flight that enters the claims of args. Where the store is away,
// what was sent cannot be called back: a caller that cancels is answered at once,
// but its flight is not torn down, or the claim could arrive when Close has
// looked and nobody is left to end it. The session knows the flight until it has
// ended, and Close ends what it entered.
func (s *session) cross(ctx context.Context, args []*Args, fly func(context.Context) error) error {
	if !s.e.d.Away {
		return fly(ctx)
	}
	x := &crossing{args: make([]Args, len(args)), done: make(chan struct{})}
	for i, a := range args {
		x.args[i] = *a
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrGone
	}
	s.crossings[x] = struct{}{}
	s.mu.Unlock()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(s.life, cancel)
	var err error
	end := func() {
		if err = fly(life); err != nil && s.life.Err() != nil {
			err = fmt.Errorf("%w: %w", driver.ErrGone, err)
		}
		release()
		cancel()
		s.mu.Lock()
		delete(s.crossings, x)
		s.mu.Unlock()
		close(x.done)
	}
	if ctx.Done() == nil {
		end()
		return err
	}
	go end() // Close waits for it, by x.done
	select {
	case <-x.done:
		return err
	case <-ctx.Done():
		time.AfterFunc(strayLife, cancel)
		return ctx.Err()
	}
}

// awaitEnter waits, for a while, for flights that may still enter a claim which is
// to be left: on connections of their own the two could arrive in any order.
func (s *session) awaitEnter(ctx context.Context, id string) error {
	s.mu.Lock()
	var under []*crossing
	for x := range s.crossings {
		if slices.ContainsFunc(x.args, func(a Args) bool { return a.text[ID] == id }) {
			under = append(under, x)
		}
	}
	s.mu.Unlock()
	if len(under) > 0 {
		awaitAll(ctx, under)
	}
	return ctx.Err()
}

// awaitAll waits until flights have ended, ctx has, or strayLife is over.
func awaitAll(ctx context.Context, under []*crossing) {
	ctx, cancel := context.WithTimeout(ctx, strayLife)
	defer cancel()
	for _, x := range under {
		select {
		case <-x.done:
		case <-ctx.Done():
			return
		}
	}
}

// awaitCrossings waits for the flights that were under way when the session was
// closed, for a while, and ends what they may have entered since.
func (s *session) awaitCrossings(ctx context.Context, under []*crossing) {
	if len(under) > 0 {
		awaitAll(ctx, under)
	}
	s.cut()
	if ctx.Err() != nil { // what was cut just now still deserves a try
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
	}
	for _, x := range under {
		<-x.done // soon, now that it was cut
		for i := range x.args {
			a := &x.args[i]
			a.set(Upto, a.Int(Try))
			_, _ = s.quit(ctx, a, true) // what stays expires
		}
	}
}
