package redislock

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// Close ends the session's claims, many a piece.
func (s *session) Close(ctx context.Context) error {
	e := s.e
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	left := make([]driver.Claim, 0, len(s.spots))
	for _, p := range s.spots {
		left = append(left, p.claim)
	}
	s.mu.Unlock()
	e.mu.Lock()
	if e.sessions[s.id] == s {
		delete(e.sessions, s.id)
	}
	e.mu.Unlock()

	var failed error
	for chunk := range slices.Chunk(left, beatChunk) {
		calls := make([]Command, len(chunk))
		for i := range chunk {
			at, own := s.of(&chunk[i])
			calls[i] = Command{at.hold, leaveScript.call(4, at.keys(own))}
		}
		answers := make([]Answer, len(chunk))
		runEach(ctx, leaveScript, e.c.Each, calls, answers)
		for i, a := range answers {
			if moving(a.Err) && s.depart(ctx, chunk[i]) == nil {
				continue
			}
			if a.Err == nil {
				s.left(chunk[i])
			} else if code(a.Err) != "WRONGTYPE" { // nothing of ours is there then
				failed = fault(a.Err)
			}
		}
		if ctx.Err() != nil {
			return driver.Join(failed, ctx.Err()) // the rest expires
		}
	}
	return failed
}
