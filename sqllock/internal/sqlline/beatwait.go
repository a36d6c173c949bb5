package sqlline

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// maxRowWait bounds how long one beat waits for locked rows.
const maxRowWait = time.Second

// maxLocked is how many rows a beat waits for. More than that are not locked by callers
// that come and go but by one transaction, such as that of an interrupted beat.
const maxLocked = 8

// mustWaitNow reports whether the rest of a beat's time is needed to wait for locked
// rows. It is not if the last beat timed out on all of them.
func (s *session) mustWaitNow(ctx context.Context, locked []*beatEntry) bool {
	return len(locked) <= maxLocked &&
		slices.ContainsFunc(locked, func(p *beatEntry) bool { return !p.timedOut }) &&
		s.rowWait(ctx) < s.rowWait(context.Background())
}

// beatLocked prolongs claims whose rows were locked at every attempt. On a name with
// many concurrent callers one of them always has the row locked, and a beat that only
// skips locked rows would not find it free until the hold has expired: this one queues
// for the row's lock, each claim in a batch by itself, so that it holds no other row
// meanwhile. A row that is locked for longer, as by a guarded transaction, keeps its
// expiry, and its claim is answered as not learnt; the next beat waits for it only if
// there is time left after all others.
//
// One beat of an engine waits at a time, so that other beats have connections left.
func (s *session) beatLocked(ctx context.Context, locked []*beatEntry) error {
	if len(locked) > maxLocked && ctx.Err() == nil {
		if err := s.beatSeen(ctx, locked); err != nil {
			return err
		}
		locked = slices.DeleteFunc(locked, (*beatEntry).isAnswered)
	}
	if len(locked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.rowWait(ctx))
	defer cancel()
	select {
	case s.e.blockingBeat <- struct{}{}:
		defer func() { <-s.e.blockingBeat }()
	case <-ctx.Done():
		return nil
	}
	slices.SortStableFunc(locked, timedOutLast)
	locked = locked[:min(len(locked), maxLocked)]
	until, _ := ctx.Deadline()
	for i, p := range locked {
		if ctx.Err() != nil {
			return nil
		}
		s.beatWait(ctx, p, time.Until(until)/time.Duration(len(locked)-i))
	}
	locked = slices.DeleteFunc(locked, (*beatEntry).isAnswered)
	if len(locked) == 0 || ctx.Err() != nil {
		return nil
	}
	return s.beatSearch(ctx, locked) // they have moved or ended meanwhile
}

func timedOutLast(a, b *beatEntry) int {
	switch {
	case a.timedOut == b.timedOut:
		return 0
	case a.timedOut:
		return 1
	}
	return -1
}

// rowWait returns how long a beat waits for rows, within ctx.
func (s *session) rowWait(ctx context.Context) time.Duration {
	most := min(s.ttl/12, maxRowWait)
	if end, ok := ctx.Deadline(); ok {
		return min(most, time.Until(end))
	}
	return most
}

// beatWait waits for one claim's row and prolongs it. An error says only that nothing
// was learnt: any other fault is met by the beat's other batches too.
func (s *session) beatWait(ctx context.Context, p *beatEntry, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p.inHead, p.inLine = false, false
	step := beatStep(p, s.e.q.BeatClaimWait, (*beatEntry).seenInLine)
	if p.seen.inHead {
		step = beatStep(p, s.e.q.BeatHoldWait, (*beatEntry).seenInHead)
	}
	s.setTimedOut(p, true)
	_ = s.runBeat(ctx, &sqlstore.Batch{Beat: true, MayBlock: true, Steps: []sqlstore.Step{step}}, []*beatEntry{p})
}
