package kvline

import (
	"context"
	"errors"
	"slices"
	"time"
)

// absent is what a change returns about a claim that is not in the line. The line is then
// written back as it is. That this succeeds shows that the line was not an old one, and
// from then on a write that was given up and is still under way is refused.
type absent struct {
	until time.Duration // for how long such a write may be under way; 0: there is none
}

func (absent) Error() string { return "not in the line" }

// update changes the line of a name in one atomic step: change is called with the line,
// and again where another write came first. It returns the line as it is then, and the
// time by the store's clock. With trust, a line that was known before is tried first:
// that saves a read, but claims in it that have expired are not ended. With judged, claims at
// the front whose sessions have expired are ended, if the line was read.
func (e *Engine) update(ctx context.Context, name string, trust, judged bool, change func(l *line, now time.Time) error) (line, time.Time, error) {
	for conflicts := 0; ; conflicts++ {
		pauseAfter(ctx, conflicts)
		l, revision, now, err := e.load(ctx, name, trust)
		if err != nil {
			return nil, now, err
		}
		was := slices.Clone(l)
		if trust && l.unclear(now) {
			trust = false
			continue
		}
		if !trust {
			l.expire(now)
			if judged {
				if err := e.judge(ctx, &l, now); err != nil {
					return nil, now, err
				}
			}
			l.grant(now)
		}
		changed := change(&l, now)
		gone, writeBack := errors.AsType[absent](changed)
		l.grant(now)
		same := changed != nil || slices.Equal(was, l)
		if trust && (same || !l.complete()) {
			trust = false
			continue
		}
		if same && !writeBack {
			return l, now, changed
		}
		trust = false
		l.prolong(now)
		v := Value{Data: l.write(), Revision: revision}
		v.Revision, err = e.store.Put(ctx, linePrefix+encode(name), v, max(l.keep(), gone.until))
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return nil, now, err
		}
		kept := slices.Clone(l)
		kept.complement(v.Revision, unknown)
		e.known.set(name, kept, v.Revision)
		l.complement(v.Revision, now.UnixNano())
		e.tell(name, was, l, v)
		return l, now, changed
	}
}
