package sqlline

import (
	"context"
	"slices"
	"strings"
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

// beatRetries are the pauses after which a beat tries rows again that are locked for a
// moment.
var beatRetries = []time.Duration{time.Millisecond, 4 * time.Millisecond}

// Beat prolongs claims by primary key, a chunk per transaction. Each claim is answered
// for itself, and a chunk that failed does not keep the others from being tried. If ctx
// ends before all are answered, the next beat begins with those that were not: if the
// same claims always came last, they would never be prolonged.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	clear(out)
	var failed error
	var locked []*beatEntry
	for rest := s.beatEntries(live, out); len(rest) > 0 && ctx.Err() == nil; {
		if s.mustWaitNow(ctx, locked) {
			failed = context.DeadlineExceeded
			break
		}
		chunk := s.nextChunk(rest)
		rest = rest[len(chunk):]
		begun := time.Now()
		still, err := s.beatChunk(ctx, chunk)
		if err != nil {
			failed = err
		}
		s.chunkDone(ctx, chunk, rest, time.Since(begun), err)
		locked = append(locked, still...)
	}
	if err := s.beatLocked(ctx, locked); err != nil {
		failed = err
	}
	if failed == nil {
		failed = ctx.Err()
	}
	s.e.sweepSome(ctx)
	return failed
}

// beatEntries returns the claims of a beat in the order in which all batches lock rows,
// from where the last beat was interrupted.
func (s *session) beatEntries(live []driver.Claim, out []driver.Standing) []*beatEntry {
	all := make([]*beatEntry, len(live))
	block := make([]beatEntry, len(live))
	for i, c := range live {
		p, have := &block[i], s.stateOf(c)
		*p = beatEntry{claim: c, args: s.args(c), out: &out[i], seen: have.seen, timedOut: have.timedOut}
		if !p.seen.waiting {
			p.heldToken = p.seen.token
		}
		all[i] = p
	}
	s.mu.Lock()
	from := s.beatFrom
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *beatEntry) int { return strings.Compare(a.claim.Name, b.claim.Name) })
	i, _ := slices.BinarySearchFunc(all, from, func(p *beatEntry, name string) int { return strings.Compare(p.claim.Name, name) })
	return slices.Concat(all[i:], all[:i])
}

// nextChunk returns the first claims of all that go into one batch. Their names are in
// order, so a chunk ends where the names start over.
func (s *session) nextChunk(all []*beatEntry) []*beatEntry {
	s.mu.Lock()
	n := min(s.chunk, len(all))
	s.mu.Unlock()
	for i := 1; i < n; i++ {
		if all[i].claim.Name < all[i-1].claim.Name {
			return all[:i]
		}
	}
	return all[:n]
}

// chunkDone stores how far a beat has come, and adapts the size of a chunk.
func (s *session) chunkDone(ctx context.Context, chunk, rest []*beatEntry, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	interrupted := err != nil && ctx.Err() != nil
	switch {
	case took > s.ttl/30 || interrupted:
		s.chunk = max(s.chunk/2, beatChunkLeast)
	case took < s.ttl/120 && err == nil && len(chunk) == s.chunk:
		s.chunk = min(s.chunk*2, beatChunkMost)
	}
	switch {
	case interrupted:
		s.beatFrom = chunk[0].claim.Name
	case len(rest) > 0:
		s.beatFrom = rest[0].claim.Name
	default:
		s.beatFrom = ""
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
