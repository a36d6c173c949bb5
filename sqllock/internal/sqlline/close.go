package sqlline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// Close ends the session's claims, and last what batches that were under way have entered.
func (s *session) Close(ctx context.Context) error {
	s.e.sessions.Remove(s.id, s)
	left := s.claims.Close() // first: a batch that is not in underWay is refused
	s.mu.Lock()
	underWay := slices.Collect(maps.Keys(s.inflight))
	s.mu.Unlock()
	defer s.endInflight(ctx, underWay)
	out := make([]error, len(left))
	s.leaveAll(ctx, left, out) // what ctx does not permit expires
	return driver.Join(slices.DeleteFunc(out, func(err error) bool { return errors.Is(err, driver.ErrGone) })...)
}

// endInflight waits for the batches that were under way when the session was closed, and
// for those whose outcome is unknown, and ends what they may have entered since.
func (s *session) endInflight(ctx context.Context, underWay []*inflight) {
	if len(underWay) == 0 {
		s.cancel()
		return
	}
	waiting, cancel := context.WithTimeout(ctx, arriveWithin)
	defer cancel()
	for _, x := range underWay {
		select {
		case <-x.done:
		case <-waiting.Done():
		}
	}
	s.cancel()
	for _, x := range underWay {
		<-x.done // soon, now that it was cancelled
		if !x.until.IsZero() {
			driverkit.Pause(waiting, time.Until(x.until))
		}
	}
	if ctx.Err() != nil { // one attempt is made for what was cancelled just now
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
		defer cancel()
	}
	for _, x := range underWay {
		for i := range x.args {
			_, _ = s.leaveLine(ctx, &x.args[i], true) // a claim that stays expires
		}
	}
}
