package sqlline

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A batch of a beat locks rows while it runs, and in some stores the whole store, and
// has no effect if it does not end in time. A batch takes as many claims as need a small
// part of the time a beat has.
const (
	beatChunkMost  = 500
	beatChunkFirst = 100
	beatChunkLeast = 20
)

// beatLanes is how many batches of one beat are under way at a time in a store across a
// network, so that one without an answer keeps the others from nothing, and a round trip
// is not waited for alone. Two leave connections to other beats, and to the application
// where they are of its pool.
const beatLanes = 2

// beatRetries are the pauses after which a beat tries rows again that are locked for a
// moment.
var beatRetries = []time.Duration{time.Millisecond, 4 * time.Millisecond}

// Beat prolongs claims by primary key, a chunk per transaction, holds before places in
// line and otherwise in the order in which they are urgent. Each claim is answered for
// itself, and a chunk that failed, or has no answer, does not keep the others from being
// tried.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	clear(out)
	todo := &beatQueue{s: s, rest: s.beatEntries(live, out)}
	lanes := 1
	if s.e.d.Remote && len(todo.rest) > beatChunkLeast {
		lanes = beatLanes
	}
	errs := make([]error, lanes)
	var others sync.WaitGroup
	for i := range lanes - 1 {
		others.Go(func() { errs[i+1] = s.beatLane(ctx, todo) }) // ends with ctx; awaited below
	}
	errs[0] = s.beatLane(ctx, todo)
	others.Wait()
	s.e.sweepSoon()
	return cmp.Or(driver.Join(errs...), ctx.Err())
}

// beatLane prolongs one chunk after the other, until none is left or the rest of the
// time is needed for rows that were locked.
func (s *session) beatLane(ctx context.Context, todo *beatQueue) (failed error) {
	var locked []*beatEntry
	for ctx.Err() == nil {
		if s.mustWaitNow(ctx, locked) {
			failed = context.DeadlineExceeded
			break
		}
		chunk, done := todo.next(ctx)
		if len(chunk) == 0 {
			break
		}
		begun := time.Now()
		still, err := s.beatChunk(ctx, chunk)
		done()
		if err != nil {
			failed = err
		}
		s.chunkDone(len(chunk), time.Since(begun), err != nil && ctx.Err() != nil, err == nil)
		locked = append(locked, still...)
	}
	if err := s.beatLocked(ctx, locked); err != nil {
		failed = err
	}
	return failed
}

// beatEntries returns the claims of a beat: holds, then places in line.
func (s *session) beatEntries(live []driver.Claim, out []driver.Standing) []*beatEntry {
	all, waiting := make([]*beatEntry, 0, len(live)), []*beatEntry(nil)
	block := make([]beatEntry, len(live))
	for i, c := range live {
		p, have := &block[i], s.stateOf(c)
		*p = beatEntry{claim: c, args: s.args(c), out: &out[i], seen: have.seen, timedOut: have.timedOut}
		if p.seen.waiting {
			waiting = append(waiting, p)
			continue
		}
		p.heldToken = p.seen.token
		all = append(all, p)
	}
	return append(all, waiting...)
}

// A beatQueue has the claims of a beat that no batch has taken yet.
type beatQueue struct {
	s *session

	mu    sync.Mutex // guards what follows
	rest  []*beatEntry
	holds int           // batches of holds under way
	held  chan struct{} // closed when there is none; nil without a receiver
}

// next takes the claims of the next batch, in the order in which all batches lock rows.
// Places in line are not in one with holds, unless all of them together are few, and come
// when the holds were answered: a holder must not wait for their rows. A batch of holds
// that has no answer for long does not keep them from theirs. done is to be called when
// the batch has returned.
func (q *beatQueue) next(ctx context.Context) (chunk []*beatEntry, done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.rest) > 0 && q.rest[0].seen.waiting && q.holds > 0 {
		q.waitForHoldsLocked(ctx)
	}
	n := min(q.s.chunkSize(), len(q.rest))
	if n > beatChunkLeast && !q.rest[0].seen.waiting {
		if i := slices.IndexFunc(q.rest[:n], func(p *beatEntry) bool { return p.seen.waiting }); i > 0 {
			n = i
		}
	}
	chunk, q.rest = q.rest[:n], q.rest[n:]
	if done = func() {}; n > 0 && !chunk[0].seen.waiting {
		q.holds++
		done = q.holdsDone
	}
	slices.SortStableFunc(chunk, func(a, b *beatEntry) int { return strings.Compare(a.claim.Name, b.claim.Name) })
	return chunk, done
}

// waitForHoldsLocked waits, without the mutex, until no batch of holds is under way.
func (q *beatQueue) waitForHoldsLocked(ctx context.Context) {
	if q.held == nil {
		q.held = make(chan struct{})
	}
	held := q.held
	q.mu.Unlock()
	defer q.mu.Lock()
	long := time.NewTimer(q.s.ttl / 30)
	defer long.Stop()
	select {
	case <-held:
	case <-long.C:
	case <-ctx.Done():
	}
}

// holdsDone is called when a batch with holds has returned.
func (q *beatQueue) holdsDone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holds--; q.holds == 0 {
		closeLocked(&q.held)
	}
}

func (s *session) chunkSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunk
}

// chunkDone adapts the size of a chunk to what a batch took beyond the round trip that
// the fastest one needed. What counts as that grows by and by, since the way to the store
// may have become longer, but only with batches that are as small as can be: a larger one
// is slow because the store is.
func (s *session) chunkDone(n int, took time.Duration, interrupted, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !ok:
	case s.trip == 0 || took < s.trip:
		s.trip = took
	case n <= beatChunkLeast:
		s.trip = min(took, s.trip+s.trip/8)
	}
	switch work := took - s.trip; {
	case work > s.ttl/30 || interrupted:
		s.chunk = max(s.chunk/2, beatChunkLeast)
	case work < s.ttl/120 && ok && n == s.chunk:
		s.chunk = min(s.chunk*2, beatChunkMost)
	}
}

// beatChunk prolongs each claim where it was last seen. A second batch searches for
// those that were not there: they have moved from the line into the head row, or have
// ended, or their row is locked. Locked rows are tried again, and returned if they stay
// locked.
func (s *session) beatChunk(ctx context.Context, all []*beatEntry) (locked []*beatEntry, err error) {
	if err := s.beatSeen(ctx, all); err != nil {
		return nil, err
	}
	locked = slices.DeleteFunc(slices.Clone(all), (*beatEntry).isAnswered)
	if len(locked) == 0 {
		return nil, nil
	}
	if err := s.beatSearch(ctx, locked); err != nil {
		return nil, err
	}
	for _, pause := range beatRetries {
		locked = slices.DeleteFunc(locked, (*beatEntry).isAnswered)
		if len(locked) == 0 || !driverkit.Pause(ctx, min(pause, s.ttl/50)) {
			break
		}
		if err := s.beatSeen(ctx, locked); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(locked, (*beatEntry).isAnswered), nil
}
