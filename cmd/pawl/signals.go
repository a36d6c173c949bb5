package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// signals receives all signals from the start, so that none is lost between waiting
// and running.
type signals struct {
	ch      chan os.Signal
	ignored []syscall.Signal // ignored when pawl started; they stay ignored in the command
}

// catchSignals catches signals, except those that are ignored, for example by
// nohup.
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

// failOnBrokenPipe makes writes to a closed pipe fail instead of killing pawl while
// it holds a lock. The command is not affected: caught signals are reset on exec.
func failOnBrokenPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func (s *signals) release() {
	signal.Stop(s.ch)
	resetTerminalStop()
}

// interrupted is the error of a wait that a signal ended.
type interrupted struct{ sig syscall.Signal }

func (i interrupted) Error() string { return i.sig.String() }

// interrupts returns a ctx that is cancelled by a terminating signal, with an
// interrupted as its cause. The cancel function waits for the goroutine behind it.
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

// terminates reports whether a signal terminates a program that does not handle it.
func terminates(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}
