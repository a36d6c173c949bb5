package etcdlock

import (
	"context"
	"time"
)

// A sign is the last that was heard of a stream: that it began a watch.
type sign struct {
	at       time.Time
	revision int64
	cluster  uint64
}

// fresh is how old a sign may be that is believed. It is what a thousand who wait
// do not ask again for.
const fresh = 500 * time.Millisecond

// heard notes a sign of a stream.
func (e *Engine) heard(number int, s sign) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stream.number == number {
		e.stream.sign = s
	}
}

// silent reports whether nothing was heard of a stream for so long.
func (e *Engine) silent(number int, d time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream.number != number || time.Since(e.stream.sign.at) >= d
}

// vouched reports whether h would have been told what there was to tell: its stream
// answers, and for the same store. One that was put back to an earlier state does
// not tell of revisions that h has behind it.
func (h *ear) vouched(ctx context.Context, limit time.Duration) bool {
	e := h.e
	oldest := time.Now().Add(-fresh)
	e.mu.Lock()
	if s := e.stream.sign; e.stream.number == h.stream && (s.at.Before(oldest) || s.revision < h.since) {
		asked := e.askLocked(&e.stream.asked, func() { e.probe(h.span.from, limit) })
		e.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			return false
		}
		e.mu.Lock()
	}
	defer e.mu.Unlock()
	s := e.stream.sign
	return e.stream.number == h.stream && !s.at.Before(oldest) && s.cluster == h.cluster && s.revision >= h.since
}

// probe has the engine's stream begin a watch and end it again, on a key that is
// watched anyway and so may be. If the stream does not answer, it is doubted.
func (e *Engine) probe(key string, limit time.Duration) {
	if h, err := e.listen(e.begun, span{from: key}, limit); err == nil {
		h.close()
	}
}

// askLocked has one ask for all. No caller's end calls it off, since the answer is
// everybody's. What it returns is closed when there is one; until then it stands in
// asked, so that others find it.
func (e *Engine) askLocked(asked *chan struct{}, ask func()) <-chan struct{} {
	if *asked != nil {
		return *asked
	}
	done := make(chan struct{})
	if e.closed {
		close(done)
		return done
	}
	*asked = done
	e.tasks.Go(func() { // Close waits for it
		ask()
		e.mu.Lock()
		defer e.mu.Unlock()
		if *asked == done {
			*asked = nil
		}
		close(done)
	})
	return done
}
