package sqllock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// session is one client's claims. Its life is theirs: each has an expiry of its
// own, set by Enter and moved by Beat.
type session struct {
	e   *Engine
	id  string
	ttl time.Duration

	mu     sync.Mutex              // guards what follows
	claims map[string]driver.Claim // what may be in a line: added before it is sent, removed when it has certainly ended
	closed bool
}

var _ driver.Multi = (*session)(nil)

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// begin says whether a call may go out, and remembers the claims it is to enter.
func (s *session) begin(ctx context.Context, enter ...driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	for _, c := range enter {
		if have, ok := s.claims[c.ID]; !ok || have.Try < c.Try { // a late one does not hide its successor
			s.claims[c.ID] = c
		}
	}
	return nil
}

// ended forgets a claim that is certainly not in a line, unless a later try of
// it was sent meanwhile.
func (s *session) ended(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.claims[c.ID]; ok && have.Try <= c.Try {
		delete(s.claims, c.ID)
	}
}

func (s *session) args(c driver.Claim) *Args {
	a := s.e.args(c)
	a.text[SessionID] = s.id
	a.setDuration(TTL, s.ttl)
	return a
}

// Enter takes a free name in one statement; whatever is not exclusive or not
// free goes through the queueing flight.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.begin(ctx, c); err != nil {
		return driver.Standing{}, err
	}
	a := s.args(c)
	if c.Exclusive() {
		token, err := s.take(ctx, a)
		if err != nil {
			return driver.Standing{}, err
		}
		if token != 0 {
			return driver.Standing{Held: true, Token: uint64(token), Valid: s.ttl}, s.entered(ctx, a)
		}
	}
	all, err := s.join(ctx, []driver.Claim{c}, []*Args{a}, false)
	if err != nil {
		return driver.Standing{}, err
	}
	return all[0], s.entered(ctx, a)
}

// entered ends again what was entered while the session was being closed: Close
// may have looked before it was there.
func (s *session) entered(ctx context.Context, args ...*Args) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if !closed {
		return nil
	}
	for _, a := range args {
		a.set(Upto, a.Int(Try))
		_, _ = s.quit(ctx, a, true) // what stays expires, or is buried
	}
	return driver.ErrGone
}

// take is the one-statement path; token 0 says that it does not lead there.
func (s *session) take(ctx context.Context, a *Args) (token int64, err error) {
	f := Flight{Steps: []Step{{Query: s.e.q.enter, Args: a, Row: func(r Row) error { return r.Scan(&token) }}}}
	if err := s.e.d.Store.Run(ctx, &f); err != nil {
		return 0, err
	}
	return token, nil
}

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

func (s *session) tryJoin(ctx context.Context, cs []driver.Claim, args []*Args, all bool) ([]look, error) {
	q := s.e.q
	var told []string
	f := Flight{}
	looks := make([]look, len(cs))
	for i := range looks {
		looks[i] = look{name: cs[i].Name, ahead: -1}
	}
	for _, i := range inOrder(args) {
		a := args[i]
		qs := []*Query{q.head, q.lock, q.expire, q.prune}
		if cs[i].Try > 1 { // a lower try of the same claim ends here
			a.set(Upto, int64(cs[i].Try)-1)
			qs = append(qs, q.end, q.drop)
		}
		qs = append(qs, q.tally, q.prolong)
		if cs[i].Exclusive() {
			qs = append(qs, q.beatX)
		}
		qs = append(qs, q.join, q.raise, q.promote, q.vacate, q.admit, q.count)
		f.Steps = append(f.Steps, flight(a, &told, qs...)...)
		f.Steps = append(f.Steps, Step{Query: q.standing, Args: a, Row: looks[i].scan, Veto: all})
	}
	if err := s.e.fly(ctx, &f, &told); err != nil {
		return nil, err
	}
	if f.Vetoed {
		for i := range looks { // it never happened, and what was not reached was not looked at
			looks[i].held, looks[i].vetoed = false, true
		}
	}
	return looks, nil
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
			out[i] = driver.Standing{Ahead: l.ahead, Holder: l.holder(), Pause: l.pause()}
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
		default:
			out[i] = l.standing()
			out[i].Valid = s.ttl
		}
	}
	if err != nil && !all {
		return nil, err
	}
	return out, err
}
