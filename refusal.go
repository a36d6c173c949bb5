package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// What an acquire says that ended without the lock.

// errNotInTime is ErrHeld to those who ask, since WithWait promises it, where the store
// has not said that anybody holds the lock.
var errNotInTime error = notInTime{}

type notInTime struct{}

func (notInTime) Error() string        { return "not acquired in time, the store has not answered" }
func (notInTime) Is(target error) bool { return target == ErrHeld }

// noAnswer says for how long the store did not answer.
func noAnswer(d time.Duration) error {
	return fmt.Errorf("%w: no answer for %v", driver.ErrUnreachable, d.Round(time.Millisecond))
}

// stopped is the error of a quest that ctx ended. It says that the lock is held only
// if the store said so, and that the store is silent where it is.
func (q *quest) stopped(ctx context.Context) error {
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
	silence := q.silence()
	switch {
	case q.known && silence != nil:
		return driver.Join(q.held(cause), silence)
	case q.known:
		return q.held(cause)
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

// silence is what is wrong with the store, if it does not answer: it has failed, has
// never answered this quest for a while, or not even a beat in the time of two.
func (q *quest) silence() error {
	if q.fault != nil {
		return q.fault
	}
	ttl := q.o.ttl
	now := q.c.now()
	if !q.known {
		if long := now.sub(q.began); q.began != 0 && long >= min(ttl/6, time.Second) {
			return noAnswer(long)
		}
		return nil
	}
	s, _ := q.c.find(ttl)
	if s == nil {
		s = q.stood // it may have ended because nobody answered, and the next is not open yet
	}
	if s != nil {
		if long := s.silent(); long > 2*s.ttl/3 {
			return noAnswer(long)
		}
	}
	return nil
}

// otherLimit asks the store who uses the name with another limit.
func (q *quest) otherLimit(ctx context.Context, err error) error {
	call := newCall(ctx, time.Now().Add(tryLimit(q.o.ttl)))
	defer call.end()
	e := &LimitError{Limit: q.cl.Limit, Err: err}
	line, _ := q.c.engine.Line(call, q.cl.Name) // without an answer the other has no name
	for _, o := range line {
		if !o.Exclusive() && o.Limit != e.Limit {
			e.Other = &o
			break
		}
	}
	return e
}

// promised is until when the store has promised the claim; 0: it has not yet.
func (q *quest) promised() instant {
	s := q.cl.s
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.cl.promise
}

func (q *quest) held(cause error) error {
	return &HeldError{Holder: q.holder(), Ahead: q.last.Ahead, Err: cause}
}

// holder is who was last seen to be in the way, as it is by now: Await comes back when
// it is another one, which may be long ago.
func (q *quest) holder() *driver.Entry {
	h := q.last.Holder
	if h == nil || q.at == 0 {
		return h
	}
	aged, gone := *h, q.c.now().sub(q.at)
	if h.Since > 0 {
		aged.Since += gone
	}
	aged.Left = max(0, h.Left-gone)
	return &aged
}
