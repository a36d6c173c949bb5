package pawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Confirm asks the store now whether the lock is still ours, and prolongs it. Call it
// before a step that cannot be undone, on a resource that cannot check a token. nil
// says that the store had the lock as ours when it answered; nobody else holds it
// before Deadline. A step that takes longer than that is not covered.
//
// ErrLost says that the lock is not ours any more, and the lease has ended. A question
// that gets no answer is repeated until ctx or the lease ends; the error of ctx then
// says that nothing was learnt, and the lease goes on until its deadline. A lease
// WithoutRenewal is confirmed and not prolonged. One of several names is confirmed for
// all of them.
func (l *Lease) Confirm(ctx context.Context) error {
	requireContext(ctx)
	parts := l.Parts()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts[1:] {
		all.Go(func() { errs[i+1] = p.confirm(ctx) })
	}
	errs[0] = parts[0].confirm(ctx)
	all.Wait()
	return driver.Join(errs...)
}

// confirm is Confirm for one name.
func (l *Lease) confirm(ctx context.Context) error {
	fail := func(err error) error { return l.c.fail("confirm", l.name, err) }
	if err := l.Err(); err != nil {
		return fail(err)
	}
	if !l.c.begin() {
		return fail(ErrClosed)
	}
	defer l.c.calls.Done()
	defer l.o.observers.settle()
	wait := &callContext{Context: ctx, closing: l.c.ctx}
	defer wait.end()
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := l.askStore(wait)
		switch why := l.Err(); {
		case why != nil:
			return fail(why)
		case err == nil:
			return nil
		case !errors.Is(err, driver.ErrUnreachable):
			return fail(err)
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-wait.Done():
		case <-l.Context().Done():
		}
		again.Stop()
		switch {
		case errors.Is(context.Cause(wait), ErrClosed):
			return fail(ErrClosed)
		case wait.Err() != nil:
			return fail(driver.Join(wait.Err(), err))
		}
	}
}

// askStore asks once. A loss that it learns ends the lease.
func (l *Lease) askStore(ctx context.Context) error {
	s, sent := l.cl.s, l.c.now()
	err := s.confirm(ctx, l.cl, l.fence)
	switch {
	case err == nil:
		l.c.tell(l.cl, l.o, Event{Kind: Renewed, Token: token(l.fence, l.pass), Took: l.c.now().Sub(sent)})
	case errors.Is(err, errDead):
		s.die(errDead)
	case errors.Is(err, errBroken):
		s.lose(loss{cl: l.cl, why: errBroken})
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		err = noAnswer(s.ttl / 6)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = driver.Join(err, driver.ErrUnreachable)
	}
	return err
}
