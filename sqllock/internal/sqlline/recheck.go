package sqlline

import (
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A lineExpiry is what a beat reads of a line: for how long no claim in it need look,
// and its exclusive holder.
type lineExpiry struct {
	left   time.Duration
	holder string
}

// lineExpiries are by stored name.
type lineExpiries map[string]lineExpiry

// steps reads the lines in which claims of the session were seen to wait: down to the
// last of these, since claims behind it do not block any of them.
func (l *lineExpiries) steps(s *session, all []*beatEntry) []sqlstore.Step {
	last := map[string]*sqlstore.Args{}
	for _, p := range all {
		if !p.seen.waiting || s.e.q.LineExpiry.Empty() {
			continue
		}
		p.args.Num[sqlstore.Token] = p.seen.token
		if a := last[p.args.Key()]; a == nil || a.Num[sqlstore.Token] < p.seen.token {
			last[p.args.Key()] = p.args
		}
	}
	if len(last) == 0 {
		return nil
	}
	*l = lineExpiries{}
	rows := make([]*sqlstore.Args, 0, len(last))
	for _, a := range last {
		rows = append(rows, a)
	}
	return []sqlstore.Step{{Statement: s.e.q.LineExpiry, Args: &sqlstore.Args{List: rows}, Row: func(r sqlstore.Row) error {
		var name, holder string
		var left int64
		err := r.Scan(&name, &left, &holder)
		(*l)[name] = lineExpiry{micros(left), holder}
		return err
	}}}
}

// apply tells waiters for how long they need not look. A line without a holder, or with
// an expired claim, is mostly so for a moment, until the next claim is granted; but the
// process that should do that may have died, or a guard may prevent it.
func (l lineExpiries) apply(s *session, all []*beatEntry, sent time.Time) {
	for _, p := range all {
		x, known := l[p.args.Key()]
		if !known || !p.inLine || p.held {
			continue
		}
		switch w := s.e.waiters.Find(p.claim.ID); {
		case w == nil:
		case x.left > 0:
			w.Beaten(sent, x.left, x.holder, s.lookEvery(p.seen))
		default:
			w.Suspect(s.lookEvery(p.seen))
		}
	}
}

// aheadPerTTL is behind how many claims a waiter looks half as often as the first does.
const aheadPerTTL = 50

// lookEvery is how often a waiter looks at most because a beat has found another holder, or
// none. The further it is behind the less that concerns it: what expires ahead of it, it
// looks for in time.
func (s *session) lookEvery(at location) time.Duration {
	return s.ttl + s.ttl*time.Duration(at.ahead)/aheadPerTTL
}
