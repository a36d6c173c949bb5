package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// ready waits until f, or any life if f is nil, can be asked: no longer than twice
// the life's timeout, whatever ctx allows. That is enough to try a few servers that
// are stuck before one that is not.
func (l *link) ready(ctx context.Context, f *life) error {
	var late <-chan time.Time // set when there is something to wait for
	for waited := false; ; waited = true {
		l.mu.Lock()
		var err error
		switch {
		case ctx.Err() != nil && waited:
			err = unanswered(ctx)
		case ctx.Err() != nil:
			err = ctx.Err()
		case f != nil && f.ended(), l.shut:
			err = driver.ErrGone
		case l.up && f != nil && f != l.life: // cannot be: a new life ends the old
			err = driver.ErrGone
		case l.up:
			l.mu.Unlock()
			return nil
		case l.failures > l.servers:
			err = unreachable(l.cause)
		}
		changed, patience := l.changed, 2*l.timeoutLocked()
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if late == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-late:
			return unreachable(fmt.Errorf("no connection within %v", patience))
		}
	}
}

// timeoutLocked is the present life's, or what one is asked for.
func (l *link) timeoutLocked() time.Duration {
	switch {
	case l.life != nil:
		return l.life.timeout
	case l.ask > 0:
		return l.ask
	}
	return mainTimeout
}

// hooked waits as ready does, and finds out where a connection of the user's does
// not go through the hook.
func (l *link) hooked(ctx context.Context) error {
	l.mu.Lock()
	blind := !l.dialed && l.conn.State() == zk.StateHasSession
	l.mu.Unlock()
	if blind {
		return errors.New("zklock: the connection has another dialer than its hook's: pass the hook's option last")
	}
	return l.ready(ctx, nil)
}

// calm waits a moment after a failure, and then until there is a connection.
func (l *link) calm(ctx context.Context, f *life) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	case <-f.lost:
	}
	for l.ready(ctx, f) != nil && ctx.Err() == nil && !f.ended() {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-f.lost:
		}
	}
}

// do runs a call of the library, which knows no ctx. When ctx ends first, the
// call goes on alone: what it writes must be its own.
func (l *link) do(ctx context.Context, f *life, call func(c *zk.Conn) error) error {
	if err := l.ready(ctx, f); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !l.start(f, "", call, func(err error) { done <- err }) {
		return driver.ErrGone
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unanswered(ctx)
	}
}

// start runs a call of the library beside its caller, and tells of its outcome, however
// late; close waits for it. A guard is a text in the request, not empty, by which it is
// known where only the life f may make it. False says that the call was not begun.
func (l *link) start(f *life, guard string, call func(c *zk.Conn) error, answered func(err error)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut || f != nil && f.ended() {
		return false
	}
	if guard != "" {
		l.guards[guard] = struct{}{}
	}
	l.crew.Do(func() {
		err := call(l.conn)
		if guard != "" {
			l.mu.Lock()
			delete(l.guards, guard)
			delete(l.late, guard)
			l.mu.Unlock()
		}
		answered(l.judge(f, err))
	})
	return true
}

// judge makes of the library's error what it means for f.
func (l *link) judge(f *life, err error) error {
	if err == nil {
		return nil
	}
	if f != nil && f.ended() {
		return driver.ErrGone
	}
	return classify(err)
}

// close ends the life, if the servers can be reached, and the connection, and
// waits for all goroutines. It reports whether the servers confirmed it.
func (l *link) close() bool {
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		l.crew.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.parted
	}
	l.shut, l.refuse = true, true
	up := l.up
	l.endLocked()
	l.changeLocked()
	l.mu.Unlock()
	if up {
		l.settle()
	} else {
		l.cancel() // ends a dial
		l.cut()
	}
	l.conn.Close() // waits for an answer, for a second at most
	l.cancel()
	l.cut()
	for range l.events {
	}
	l.crew.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parted
}

// settle lets calls that are under way come to their end, for a moment. The library
// answers those that a Close overtakes with an error, and reads what it has of the
// reply, while its other goroutine may still be writing there.
func (l *link) settle() {
	settled := make(chan struct{})
	go func() { // ends soon after the connection does, at the latest
		l.crew.Wait()
		close(settled)
	}()
	select {
	case <-settled:
	case <-time.After(time.Second):
	}
}

// release ends what the engine has on a connection of the user's.
func (l *link) release() {
	l.mu.Lock()
	l.shut = true
	l.changeLocked()
	l.fireLocked()
	l.mu.Unlock()
	l.crew.Close()
}
