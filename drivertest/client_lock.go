package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
)

// client returns a client on the engine of the case; if there is a peer, every
// second client uses that. The teardown closes it.
func (f *fixture) client(opts ...pawl.Option) *pawl.Client {
	engine := f.engine
	if f.peer != nil && len(f.clients)%2 == 1 {
		engine = f.peer
	}
	c := pawl.New(engine, opts...)
	f.clients = append(f.clients, c)
	return c
}

// A lockFunc is any method that takes a lock.
type lockFunc func(context.Context) (*pawl.Lease, error)

// retryLock repeats take if the suite dropped so many replies in a row that the
// client gave up.
func (f *fixture) retryLock(ctx context.Context, take lockFunc) (l *pawl.Lease, err error) {
	err = retryLostReply(ctx, f.losesReplies, func() error {
		l, err = f.lockUntil(ctx, take)
		return err
	})
	return l, err
}

// lockUntil calls take and returns soon after ctx has ended, even if the engine
// ignores ctx and take does not return.
func (f *fixture) lockUntil(ctx context.Context, take lockFunc) (*pawl.Lease, error) {
	var l *pawl.Lease // owned by the goroutine until done is closed
	call := f.inBackground(func() (err error) {
		l, err = take(ctx)
		return err
	})
	select {
	case <-call.done:
		return l, call.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-call.done:
		return l, call.err
	case <-timer.C:
		return nil, fmt.Errorf("a call did not come back within %v of the end of its ctx", soon)
	}
}

// mustLock takes a lock or fails the case. If the client gave up because replies
// were lost, the store may have granted the lock anyway; the client's own claim
// then blocks it until the client has cleaned it up.
func (f *fixture) mustLock(take lockFunc) *pawl.Lease {
	f.Helper()
	unsure := false
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := f.lockUntil(f.ctx, take)
		unsure = unsure || f.losesReplies && errors.Is(err, pawl.ErrUnreachable)
		switch {
		case err == nil:
			return l
		case unsure && time.Since(start) < soon && (errors.Is(err, pawl.ErrUnreachable) || errors.Is(err, pawl.ErrHeld)):
			continue
		}
		f.Fatalf("taking a lock that is free: %v", err)
	}
}

// expectErr fails the case unless take fails with all of want.
func (f *fixture) expectErr(what string, take lockFunc, want ...error) {
	f.Helper()
	l, err := f.retryLock(f.ctx, take)
	for _, w := range want {
		if !errors.Is(err, w) {
			f.Errorf("%s: %v, not %q", what, err, w)
		}
	}
	if err == nil {
		f.unlock(l)
	} else if strings.ContainsAny(err.Error(), "\r\n") {
		f.Errorf("%s: an error of several lines: %q", what, err.Error())
	}
}

func (f *fixture) unlock(l *pawl.Lease) {
	f.Helper()
	if err := f.unlockErr(l); err != nil {
		f.Errorf("Unlock: %v", err)
	}
}

// unlockErr unlocks a held lease. If replies are lost, Unlock may not learn whether
// it was in time; the lock is released either way.
func (f *fixture) unlockErr(l *pawl.Lease) error {
	if err := l.Unlock(); !f.losesReplies || !errors.Is(err, pawl.ErrUnknown) {
		return err
	}
	return nil
}
