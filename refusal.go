package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// errNotInTime is ErrHeld to errors.Is, since WithWait promises it, where the store
// has not said that anybody holds the lock.
var errNotInTime = worded{ErrHeld, "not acquired in time, the store has not answered"}

// stopped is the error of an acquisition that ctx ended. It says that the lock is held
// only if the store said so, and that the store is silent where it is.
func (a *acquisition) stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	waited := errors.Is(cause, errWaited)
	switch {
	case errors.Is(cause, ErrClosed):
		return ErrClosed
	case waited:
		cause = ErrHeld
	default:
		cause = ctx.Err()
	}
	silence := a.silence()
	switch {
	case a.known && silence != nil:
		return driver.Join(a.held(cause), silence)
	case a.known:
		return a.held(cause)
	case waited:
		cause = errNotInTime
	default:
		cause = fmt.Errorf("%w before the store answered", cause)
	}
	if silence == nil {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, silence)
}

// silence returns an error if the store does not answer: the last call failed, or no
// call of this acquisition was answered for a while, or no beat in the time of two.
func (a *acquisition) silence() error {
	if a.fault != nil {
		return a.fault
	}
	ttl := a.o.ttl
	if !a.known {
		if long := a.c.now().Sub(a.began); a.began != 0 && long >= min(ttl/6, time.Second) {
			return noAnswer(long)
		}
		return nil
	}
	s, _ := a.c.find(ttl)
	if s == nil {
		s = a.ended // it may have ended because the store was silent, and the next is not open yet
	}
	if s != nil {
		if long := s.silent(); long > 2*s.ttl/3 {
			return noAnswer(long)
		}
	}
	return nil
}

// limitError asks the store who uses the name with another limit.
func (a *acquisition) limitError(ctx context.Context, err error) error {
	call := callUntil(ctx, time.Now().Add(tryLimit(a.o.ttl)))
	defer call.end()
	e := &LimitError{Limit: a.cl.Limit, Err: err}
	line, _ := a.c.engine.Line(call, a.cl.Name) // without an answer the other user has no name
	for _, o := range line {
		if !o.Exclusive() && o.Limit != e.Limit {
			e.Other = &o
			break
		}
	}
	return e
}

func (a *acquisition) held(cause error) error {
	return &HeldError{Holder: a.holder(), Ahead: a.last.Ahead, Err: cause}
}

// holder returns the holder as the store showed it last, aged by the time since: Await
// returns when the holder changes, which may be long ago.
func (a *acquisition) holder() *driver.Entry {
	h := a.last.Holder
	if h == nil || a.at == 0 {
		return h
	}
	aged, since := *h, a.c.now().Sub(a.at)
	if h.Since > 0 {
		aged.Since += since
	}
	aged.Left = max(0, h.Left-since)
	return &aged
}
