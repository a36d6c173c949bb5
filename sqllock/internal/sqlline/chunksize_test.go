package sqlline

import (
	"testing"
	"time"
)

// A long way to the store and a slow store look alike in what one batch takes.
func TestBatchesAreSizedByTheWorkAndNotByTheWay(t *testing.T) {
	const perClaim = 2 * time.Millisecond // of a slow store: 166 claims are a thirtieth of the TTL
	s := &session{ttl: 10 * time.Second, chunk: beatChunkFirst}
	for _, now := range []struct {
		what           string
		way, work      time.Duration
		least, most, n int
	}{
		{"a long way", 500 * time.Millisecond, 0, beatChunkMost, beatChunkMost, 10},
		{"and a slow store", 500 * time.Millisecond, perClaim, 60, 166, 10},
		{"which becomes fast again", 500 * time.Millisecond, 0, beatChunkMost, beatChunkMost, 10},
		{"a longer way", 900 * time.Millisecond, 0, beatChunkMost, beatChunkMost, 40},
	} {
		for range now.n {
			n := s.chunkSize()
			s.chunkDone(n, now.way+time.Duration(n)*now.work, false, true)
		}
		if n := s.chunkSize(); n < now.least || n > now.most {
			t.Errorf("%s: batches of %d claims, want %d to %d", now.what, n, now.least, now.most)
		}
	}
}
