package sqllock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A flight that beats holds rows as long as it takes, and in some stores the
// whole store, so it is kept to a few milliseconds.
const beatChunk = 500

// Rows that somebody else holds for a moment are tried again within the beat,
// with these pauses. One that is held for longer, as by a guard, keeps the
// expiry it has, and is told as not learnt.
var beatAgain = []time.Duration{time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond}

// Beat prolongs claims by primary key, a chunk a transaction. Each answers for
// itself, and a chunk that failed does not keep the rest from being tried.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	clear(out)
	var failed error
	for chunk := range slices.Chunk(s.pulses(live, out), beatChunk) {
		if err := s.beat(ctx, chunk); err != nil {
			failed = err
			if ctx.Err() != nil {
				break
			}
		}
	}
	s.e.sweepSome(ctx)
	return failed
}

// A pulse is one claim in a beat.
type pulse struct {
	c    driver.Claim
	a    *Args
	spot spotHint
	st   *driver.Standing // where it is answered

	inHead, inLine, held, found bool // what the last flight has seen of it
}

// pulses are the claims of a beat in the order in which all flights take rows.
func (s *session) pulses(live []driver.Claim, out []driver.Standing) []*pulse {
	all := make([]*pulse, len(live))
	block := make([]pulse, len(live))
	s.mu.Lock()
	for i, c := range live {
		all[i] = &block[i]
		*all[i] = pulse{c: c, a: s.args(c), spot: s.spots[c.ID], st: &out[i]}
	}
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *pulse) int { return strings.Compare(a.c.Name, b.c.Name) })
	return all
}

// beat sends one flight for all, to where each claim was seen last, and further
// ones for those that were not there: they have moved from the line into the
// head row, or have ended, or somebody holds their row.
func (s *session) beat(ctx context.Context, all []*pulse) error {
	first := Flight{Beat: true, Steps: make([]Step, 0, len(all))}
	for _, p := range all {
		if p.spot.head {
			first.Steps = append(first.Steps, s.beatHead(p))
		} else {
			first.Steps = append(first.Steps, s.beatLine(p))
		}
	}
	if err := s.pulse(ctx, &first, all); err != nil {
		return err
	}
	rest := all
	for try := 0; ; try++ {
		rest = slices.DeleteFunc(slices.Clone(rest), func(p *pulse) bool { return p.st.Valid != 0 || p.st.Gone })
		if len(rest) == 0 {
			return nil
		}
		if try > 0 {
			if try > len(beatAgain) || !rested(ctx, min(beatAgain[try-1], s.ttl/50)) {
				return nil
			}
		}
		if err := s.seek(ctx, rest); err != nil {
			return err
		}
	}
}

// seek beats claims in both places and looks for those that neither had. The
// line comes before the head row, as a claim moves: should it move between the
// two, it is met in the second. What find sees is of one moment.
func (s *session) seek(ctx context.Context, rest []*pulse) error {
	f := Flight{Beat: true}
	for _, p := range rest {
		p.inHead, p.inLine, p.found = false, false, false
		f.Steps = append(f.Steps, s.beatLine(p))
		if p.c.Exclusive() {
			f.Steps = append(f.Steps, s.beatHead(p))
		}
		f.Steps = append(f.Steps, Step{Query: s.e.q.find, Args: p.a, Row: func(r Row) error {
			var head, token int64
			err := r.Scan(&head, &token)
			p.found, p.spot = true, spotHint{token: token, head: head != 0}
			return err
		}})
	}
	if err := s.pulse(ctx, &f, rest); err != nil {
		return err
	}
	for _, p := range rest {
		if p.st.Valid == 0 && !p.found {
			*p.st = driver.Standing{Gone: true}
			s.ended(p.c)
		}
	}
	return nil
}

// pulse runs a flight of beats and answers for the claims it has met.
func (s *session) pulse(ctx context.Context, f *Flight, met []*pulse) error {
	if err := s.e.d.Store.Run(ctx, f); err != nil {
		return err // what was read in a transaction that did not end was not promised
	}
	for _, p := range met {
		switch {
		case p.inHead:
			*p.st = driver.Standing{Held: true, Token: uint64(p.spot.token), Valid: s.ttl}
		case p.inLine:
			*p.st = driver.Standing{Held: p.held, Ahead: -1, Valid: s.ttl}
			if p.held {
				p.st.Token = uint64(p.spot.token)
			}
		default:
			continue
		}
		s.saw(p.c, p.spot)
	}
	return nil
}

func (s *session) beatHead(p *pulse) Step {
	return Step{Query: s.e.q.beatX, Args: p.a, Row: func(r Row) error {
		p.inHead, p.spot.head = true, true
		return r.Scan(&p.spot.token)
	}}
}

func (s *session) beatLine(p *pulse) Step {
	p.a.set(Token, p.spot.token)
	return Step{Query: s.e.q.beat, Args: p.a, Row: func(r Row) error {
		var held int64
		err := r.Scan(&held, &p.spot.token)
		p.inLine, p.spot.head, p.held = true, false, held != 0
		return err
	}}
}

// rested waits, and reports whether ctx let it.
func rested(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
