package etcdstore

import (
	"context"
	"time"
)

// VerifiedFor is how long one response over a stream is proof that the stream works,
// so that a thousand waiters do not ask for a thousand responses.
const VerifiedFor = 500 * time.Millisecond

// Verify reports whether the watch would have reported every change so far: its stream
// responds, and from the same store. A store that was restored to an earlier state does
// not report revisions that the watch has behind it. A stream that does not respond
// within limit is replaced.
func (w *Watch) Verify(ctx context.Context, limit time.Duration) bool {
	s := w.store.streams
	oldest := time.Now().Add(-VerifiedFor)
	s.mu.Lock()
	if last := s.present.last; s.present.number == w.stream && (last.at.Before(oldest) || last.revision < w.Revision) {
		probed := s.present.probe.start(w.store.tasks, func(ctx context.Context) { w.store.probe(ctx, w.keys.From, limit) })
		s.mu.Unlock()
		select {
		case <-probed:
		case <-ctx.Done():
			return false
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	last := s.present.last
	return s.present.number == w.stream && !last.at.Before(oldest) && last.cluster == w.cluster && last.revision >= w.Revision
}

// probe starts a watch over the present stream and ends it again. The key is one that
// is being watched, and so may be.
func (s *Store) probe(ctx context.Context, key string, limit time.Duration) {
	if w, err := s.WatchStarted(ctx, Key(key), limit); err == nil {
		w.Close()
	}
}
