package natslock

import (
	"context"
	"time"
)

// slow is how long a call takes before it is watched for the end of its ctx. Nearly all
// return sooner, and to register with the caller's ctx costs as much as all else that a
// call does here.
const slow = 10 * time.Millisecond

// A limited context ends with its parent, up to slow later, and at a time of its own.
type limited struct {
	context.Context // the parent
	until           time.Time
	done            chan struct{} // closed by watch
	over            chan struct{} // closed by end
	timer           *time.Timer
}

// limit returns a context that ends after wait. The caller calls end.
func limit(ctx context.Context, wait time.Duration) *limited {
	l := &limited{Context: ctx, until: time.Now().Add(wait), done: make(chan struct{}), over: make(chan struct{})}
	if at, ok := ctx.Deadline(); ok && at.Before(l.until) {
		l.until = at
	}
	l.timer = time.AfterFunc(min(slow, time.Until(l.until)), l.watch) // end waits for it
	return l
}

func (l *limited) watch() {
	defer close(l.done)
	timer := time.NewTimer(time.Until(l.until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Context.Done():
	case <-l.over:
	}
}

// end says that the call has returned.
func (l *limited) end() {
	if !l.timer.Stop() {
		close(l.over)
		<-l.done
	}
}

func (l *limited) Deadline() (time.Time, bool) { return l.until, true }

func (l *limited) Done() <-chan struct{} { return l.done }

func (l *limited) Err() error {
	select {
	case <-l.done:
		if err := l.Context.Err(); err != nil {
			return err
		}
		return context.DeadlineExceeded
	default:
		return l.Context.Err()
	}
}
