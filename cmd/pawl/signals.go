package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-go/pawl"
)

// signals receives what is sent to us from the first moment on, so that none
// falls between waiting and running.
type signals struct {
	ch chan os.Signal
}

func catch() *signals {
	s := &signals{make(chan os.Signal, 16)}
	signal.Notify(s.ch, caught...)
	return s
}

func (s *signals) release() { signal.Stop(s.ch) }

// interrupted is the end of a wait by a signal.
type interrupted struct{ sig syscall.Signal }

func (i interrupted) Error() string { return i.sig.String() }

// interrupts returns a ctx that a fatal signal ends; cancel waits for the
// goroutine behind it.
func (s *signals) interrupts(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // cancel waits for it
		defer close(done)
		for {
			select {
			case sig := <-s.ch:
				if n, ok := sig.(syscall.Signal); ok && fatal(n) {
					cancel(interrupted{n})
					return
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, func() {
		close(stop)
		<-done
		cancel(nil)
	}
}

func fatal(n syscall.Signal) bool {
	return n == syscall.SIGINT || n == syscall.SIGTERM || n == syscall.SIGHUP || n == syscall.SIGQUIT
}

// acquired turns a wait that a signal ended into its exit code.
func (j *job) acquired(ctx context.Context, lease *pawl.Lease, waited string, err error) (*pawl.Lease, error) {
	if err != nil {
		if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
			j.events.add(event{Event: "interrupted", Name: j.name, Error: i.Error()})
			return nil, &coded{code: exitSignal + int(i.sig)}
		}
		return nil, err
	}
	j.events.add(event{Event: "acquired", Name: j.name, Token: token(lease.Token())})
	switch {
	case waited != "" && !j.quiet:
		j.say("acquired %q after %s (token %d)", j.name, waited, lease.Token())
	case j.verbose:
		j.say("acquired %q (token %d)", j.name, lease.Token())
	}
	return lease, nil
}
