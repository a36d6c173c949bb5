package sqllock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// EnterAll enters every claim in one transaction; if one that does not queue
// cannot be held, or one is refused, nothing happened.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.begin(ctx, cs...); err != nil {
		return nil, err
	}
	args := make([]*Args, len(cs))
	for i, c := range cs {
		args[i] = s.args(c)
	}
	out, err := s.join(ctx, cs, args, true)
	if err != nil {
		return out, err
	}
	return out, s.entered(ctx, args...)
}

// join runs the queueing flight, and again whenever a dead process was found in
// the way, so that a crash is no reason to wait.
func (s *session) join(ctx context.Context, cs []driver.Claim, args []*Args, all bool) ([]driver.Standing, error) {
	for {
		looks, err := s.tryJoin(ctx, cs, args, all)
		if err != nil {
			return nil, err
		}
		if looks == nil { // a name has no row, or it was swept just now
			if err := s.e.makeHeads(ctx, args); err != nil {
				return nil, err
			}
			continue
		}
		if s.e.d.Census != nil && s.buryAhead(ctx, args, looks) {
			continue
		}
		if len(looks) > 0 && looks[0].vetoed {
			if err := s.quitAll(ctx, args); err != nil {
				return nil, err
			}
		}
		return s.answer(cs, looks, all)
	}
}

// quitAll ends claims that an earlier EnterAll with the same ids had entered,
// unanswered, where its repeat was undone: none must stay. Mostly there are none,
// so they are looked for before anything is written.
func (s *session) quitAll(ctx context.Context, args []*Args) error {
	for _, a := range args {
		var l look
		if err := s.e.d.Store.Read(ctx, &Step{Query: s.e.q.standing, Args: a, Row: l.scan}); err != nil {
			return err
		}
		if !l.known {
			continue
		}
		a.set(Upto, a.Int(Try))
		if _, err := s.quit(ctx, a, true); err != nil {
			return err
		}
	}
	return nil
}

// buryAhead reports whether a dead process was in the way of a claim that is
// not held. A fault here is none of the claim's: the line stands as it was told,
// and the dead are found again while waiting.
func (s *session) buryAhead(ctx context.Context, args []*Args, looks []look) (found bool) {
	for i := range looks {
		if looks[i].held {
			continue
		}
		buried, err := s.e.buryIn(ctx, args[i])
		if err != nil {
			return false
		}
		found = found || buried
	}
	return found
}

// tryJoin returns nothing if a name had no row.
func (s *session) tryJoin(ctx context.Context, cs []driver.Claim, args []*Args, all bool) ([]look, error) {
	q := s.e.q
	var told []string
	f := Flight{Tries: !slices.ContainsFunc(cs, func(c driver.Claim) bool { return c.Queue })}
	looks := make([]look, len(cs))
	for i := range looks {
		looks[i] = look{name: cs[i].Name, ahead: -1}
	}
	for _, i := range inOrder(args) {
		a := args[i]
		qs := []*Query{q.head, q.lock, q.expire}
		if s.e.d.HeadApart {
			qs = qs[1:]
		}
		if cs[i].Try > 1 { // a lower try of the same claim ends here
			a.set(Upto, int64(cs[i].Try)-1)
			qs = append(qs, q.end, q.drop)
		}
		qs = append(qs, q.prune, q.tally, q.prolong)
		if cs[i].Exclusive() {
			qs = append(qs, q.beatX)
		}
		qs = append(qs, q.join, q.raise, q.front, q.promote, q.vacate, q.admit, q.count)
		f.Steps = append(f.Steps, flight(a, &told, qs...)...)
		f.Steps = append(f.Steps, Step{Query: q.standing, Args: a, Row: looks[i].scan, Veto: all && q.veto.Text == ""})
		if all && q.veto.Text != "" {
			f.Steps = append(f.Steps, Step{Query: q.veto, Args: a, Veto: true})
		}
	}
	if err := s.cross(ctx, args, func(ctx context.Context) error { return s.e.fly(ctx, &f, &told) }); err != nil {
		return nil, err
	}
	if f.Missing {
		return nil, nil
	}
	if f.Vetoed {
		for i := range looks { // it never happened, and what was not reached was not looked at
			looks[i].held, looks[i].vetoed = false, true
		}
	}
	return looks, nil
}

// makeHeads makes the rows of names, each in a flight of its own, where the
// queueing flight does not make them itself.
func (e *Engine) makeHeads(ctx context.Context, args []*Args) error {
	if !e.d.HeadApart {
		return ctx.Err()
	}
	for _, a := range args {
		if err := e.d.Store.Run(ctx, &Flight{Steps: []Step{{Query: e.q.head, Args: a}}}); err != nil {
			return err
		}
	}
	return nil
}

// inOrder is the order in which rows are locked: that of the names, so that two
// who want the same ones never hold one each.
func inOrder(args []*Args) []int {
	order := make([]int, len(args))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(args[i].text[Name], args[j].text[Name]) })
	return order
}

// answer makes standings of looks, and of a refusal its error.
func (s *session) answer(cs []driver.Claim, looks []look, all bool) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(cs))
	var err error
	for i, c := range cs {
		l := &looks[i]
		switch {
		case l.vetoed:
			out[i] = driver.Standing{Ahead: l.ahead, Pause: l.pause()}
			if l.first.id != c.ID { // else it was free, and is again
				out[i].Holder = l.holder()
			}
			if l.clash && !l.known {
				err = driver.ErrLimit
			}
			s.ended(c)
		case l.known && l.try > c.Try:
			out[i] = driver.Standing{Gone: true}
		case !l.known && l.clash:
			s.ended(c)
			err = driver.ErrLimit
		case !l.known: // did not queue and could not be held
			s.ended(c)
			out[i] = driver.Standing{Ahead: l.ahead, Holder: l.holder(), Pause: l.pause()}
		case l.try < c.Try: // a guard keeps the earlier one from ending
			err = fmt.Errorf("%w: an earlier try is guarded by an open transaction", driver.ErrUnreachable)
		default:
			out[i] = l.standing()
			out[i].Valid = s.ttl
			s.saw(c, spotHint{token: l.token, head: l.held && c.Exclusive(), waits: !l.held})
		}
	}
	if err != nil && !all {
		return nil, err
	}
	return out, err
}
