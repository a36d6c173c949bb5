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
	ahead  int64 // how many wait ahead of the last of the session, at most farBehind
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
		var left, ahead int64
		err := r.Scan(&name, &left, &holder, &ahead)
		(*l)[name] = lineExpiry{micros(left), holder, ahead}
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
			w.Beaten(sent, x.left, x.holder, lookEvery(s.ttl, x.ahead))
		default:
			w.Suspect(lookEvery(s.ttl, x.ahead))
		}
	}
}
