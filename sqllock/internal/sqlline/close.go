package sqlline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Close ends the session's claims: exclusive holds in batches, the others one by one, and
// last what batches that were under way have entered.
func (s *session) Close(ctx context.Context) error {
	s.e.sessions.Remove(s.id, s)
	left := s.claims.Close() // first: a batch that is not in underWay is refused
	s.mu.Lock()
	underWay := slices.Collect(maps.Keys(s.inflight))
	s.mu.Unlock()
	defer s.endInflight(ctx, underWay)
	slices.SortFunc(left, func(a, b driver.Claim) int { return strings.Compare(a.Name, b.Name) })
	var errs []error
	left, err := s.releaseHolds(ctx, left)
	errs = append(errs, err)
	for _, c := range left {
		if err := ctx.Err(); err != nil { // the rest expires
			return driver.Join(append(errs, err)...)
		}
		if err := s.leave(ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
			errs = append(errs, err)
		}
	}
	return driver.Join(errs...)
}

// releaseChunk is how many holds one batch releases.
const releaseChunk = 100

// releaseHolds releases the exclusive holds in the order of their names, and grants those
// that claims wait for, mostly none. It returns the claims that it did not find to hold.
func (s *session) releaseHolds(ctx context.Context, all []driver.Claim) (rest []driver.Claim, err error) {
	for chunk := range slices.Chunk(all, releaseChunk) {
		if err := ctx.Err(); err != nil {
			return rest, err
		}
		b := sqlstore.Batch{}
		waiting := make([]int64, len(chunk)) // -1: was not released
		for i, c := range chunk {
			if waiting[i] = -1; c.Exclusive() {
				b.Steps = append(b.Steps, s.releaseStep(s.args(c), func(n int64) { waiting[i] = n }))
			}
		}
		if len(b.Steps) > 0 {
			if err := s.e.d.Store.Run(ctx, &b); err != nil {
				return append(rest, chunk...), err
			}
		}
		for i, c := range chunk {
			if waiting[i] < 0 {
				rest = append(rest, c)
				continue
			}
			s.released(ctx, c, waiting[i])
		}
	}
	return rest, nil
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
