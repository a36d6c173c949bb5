package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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

// interrupts returns a ctx that a fatal signal ends, with an interrupted as its
// cause; cancel waits for the goroutine behind it.
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
