package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// signals receives what is sent to us from the first moment on, so that none
// falls between waiting and running.
type signals struct {
	ch      chan os.Signal
	ignored []syscall.Signal // when we began; they are in the command, too
}

// catch leaves those alone that are ignored, as by nohup.
func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 16), ignoredSignals()}
	for _, sig := range caughtSignals {
		if slices.Contains(s.ignored, sig.(syscall.Signal)) {
			signal.Ignore(sig)
		} else {
			signal.Notify(s.ch, sig)
		}
	}
	ignoreTerminalStop()
	return s
}

// outliveReaders makes a write to a pipe that nobody reads any more fail, from here to
// the end. Otherwise it would end us, with a lock in hand. The command is ended by it
// as ever: what is caught is not handed down.
func failOnBrokenPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func (s *signals) release() {
	signal.Stop(s.ch)
	resetTerminalStop()
}

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
				if terminates(sig) {
					cancel(interrupted{sig.(syscall.Signal)})
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

// ends reports whether a signal ends a program that does not expect it.
func terminates(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}
