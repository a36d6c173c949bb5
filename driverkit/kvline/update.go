package kvline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// absent is what a change returns about a claim that is not in the line. The line is then
// written back as it is. That this succeeds shows that the line was not an old one, and
// from then on a write that was given up and is still under way is refused.
type absent struct {
	until time.Duration // for how long such a write may be under way; 0: there is none
}

func (absent) Error() string { return "not in the line" }

// A mode is how update goes about it.
type mode struct {
	trust  bool // a line that was known before is tried first: that saves a read, but claims in it that have expired are not ended
	judged bool // claims at the front whose sessions have expired are ended, if the line was read
	admits bool // what other engines ask for is done too
}

// update changes the line of a name in one atomic step: change is called with the line,
// and again where another write came first. It returns the line as it is then, and the
// time by the store's clock.
func (e *Engine) update(ctx context.Context, name string, m mode, change func(l *line, now time.Time) error) (line, time.Time, error) {
	full := false // there is no room for a claim of others
	for conflicts := 0; ; conflicts++ {
		pauseAfter(ctx, conflicts)
		l, revision, now, err := e.load(ctx, name, m.trust)
		if err != nil {
			return nil, now, err
		}
		was := slices.Clone(l)
		if m.trust && l.unclear(now) {
			m.trust = false
			continue
		}
		if !m.trust {
			l.expire(now)
			if m.judged {
				if err := e.judge(ctx, &l, now); err != nil {
					return nil, now, err
				}
			}
			l.grant(now)
		}
		changed := change(&l, now)
		gone, writeBack := errors.AsType[absent](changed)
		var asked, rest line // claims of others: those that need not be entered any more, and those that do
		var leave []place    // and those that leave
		if m.admits && changed == nil {
			leave = e.asks.leavers(name)
			l.dismiss(leave)
			if !full {
				asked, rest = l.admit(e.asks.of(name, now))
			}
		}
		l.grant(now)
		same := changed != nil || slices.Equal(was, l)
		if m.trust && (same || !l.complete()) {
			m.trust = false
			continue
		}
		if same && !writeBack {
			e.asks.served(name, asked, leave) // they are there, or refused
			return l, now, changed
		}
		m.trust = false
		l.prolong(now)
		v := Value{Data: l.write(), Revision: revision}
		news, departed := e.news(name, was, l, v.Data)
		if n := news[e.helper(l, 0)]; n != nil && n.grants() && len(rest) > 0 {
			e.asks.pass(n, rest)
			asked = append(asked, n.Enter...)
		}
		written, told, err := e.put(ctx, linePrefix+encode(name), v, max(l.keep(), gone.until), news)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil && len(asked) > 0 && !errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil {
			e.asks.served(name, asked, nil)
			full = true
			continue
		}
		if err != nil {
			return nil, now, err
		}
		e.asks.served(name, asked, leave)
		kept := slices.Clone(l)
		kept.complement(written, unknown)
		e.known.set(name, kept, written)
		l.complement(written, now.UnixNano())
		e.tell(name, was, l, news, told, departed, written)
		return l, now, changed
	}
}
