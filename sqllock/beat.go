package sqllock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A flight that beats holds rows as long as it takes, and in some stores the
// whole store, and one that has not ended in time has done nothing: so many claims
// travel together as take a small part of a beat's time.
const (
	beatChunk      = 500
	beatChunkFirst = 100
	beatChunkLeast = 20
)

// Rows that somebody else holds for a moment are tried again within the beat,
// with these pauses.
var beatAgain = []time.Duration{time.Millisecond, 4 * time.Millisecond}

// Beat prolongs claims by primary key, a chunk a transaction. Each answers for
// itself, and a chunk that failed does not keep the rest from being tried. Where
// ctx ends before all are answered, the next beat begins with those that were not:
// were it always the same who come last, they would never be prolonged.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	clear(out)
	var failed error
	var busy []*pulse
	for all := s.pulses(live, out); len(all) > 0 && ctx.Err() == nil; {
		if few(busy) && slices.ContainsFunc(busy, (*pulse).hopeful) && s.patience(ctx) < s.patience(context.Background()) {
			failed = context.DeadlineExceeded // what is left of the time belongs to those
			break
		}
		chunk := s.chunkOf(all)
		all = all[len(chunk):]
		begun := time.Now()
		taken, err := s.beat(ctx, chunk)
		if err != nil {
			failed = err
		}
		s.beaten(ctx, chunk, all, time.Since(begun), err)
		busy = append(busy, taken...)
	}
	if err := s.beatBusy(ctx, busy); err != nil {
		failed = err
	}
	if failed == nil {
		failed = ctx.Err()
	}
	s.e.sweepSome(ctx)
	return failed
}

// pulses are the claims of a beat in the order in which all flights take rows,
// from where the last beat was interrupted.
func (s *session) pulses(live []driver.Claim, out []driver.Standing) []*pulse {
	all := make([]*pulse, len(live))
	block := make([]pulse, len(live))
	s.mu.Lock()
	from := s.unbeaten
	for i, c := range live {
		all[i] = &block[i]
		_, vain := s.vain[c.ID]
		*all[i] = pulse{c: c, a: s.args(c), spot: s.spots[c.ID], st: &out[i], vain: vain}
		if !all[i].spot.waits {
			all[i].was = all[i].spot.token
		}
	}
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *pulse) int { return strings.Compare(a.c.Name, b.c.Name) })
	i, _ := slices.BinarySearchFunc(all, from, func(p *pulse, name string) int { return strings.Compare(p.c.Name, name) })
	return slices.Concat(all[i:], all[:i])
}

// chunkOf returns the first of all that travel together: in order, so that it
// ends where they begin anew.
func (s *session) chunkOf(all []*pulse) []*pulse {
	s.mu.Lock()
	n := min(s.chunk, len(all))
	s.mu.Unlock()
	for i := 1; i < n; i++ {
		if all[i].c.Name < all[i-1].c.Name {
			return all[:i]
		}
	}
	return all[:n]
}

// beaten notes how far a beat has come, and how large a chunk may be.
func (s *session) beaten(ctx context.Context, chunk, after []*pulse, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cut := err != nil && ctx.Err() != nil
	switch {
	case took > s.ttl/30 || cut:
		s.chunk = max(s.chunk/2, beatChunkLeast)
	case took < s.ttl/120 && err == nil && len(chunk) == s.chunk:
		s.chunk = min(s.chunk*2, beatChunk)
	}
	switch {
	case cut:
		s.unbeaten = chunk[0].c.Name
	case len(after) > 0:
		s.unbeaten = after[0].c.Name
	default:
		s.unbeaten = ""
	}
}

// beat sends one flight for all, to where each claim was seen last, and another one
// for those that were not there: they have moved from the line into the head row,
// or have ended, or somebody holds their row. These are tried again, and returned
// if it is so still.
func (s *session) beat(ctx context.Context, all []*pulse) (busy []*pulse, err error) {
	if err := s.beatSpots(ctx, all); err != nil {
		return nil, err
	}
	busy = slices.DeleteFunc(slices.Clone(all), (*pulse).answered)
	if len(busy) == 0 {
		return nil, nil
	}
	if err := s.seek(ctx, busy); err != nil {
		return nil, err
	}
	for _, pause := range beatAgain {
		busy = slices.DeleteFunc(busy, (*pulse).answered)
		if len(busy) == 0 || !rested(ctx, min(pause, s.ttl/50)) {
			break
		}
		if err := s.beatSpots(ctx, busy); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(busy, (*pulse).answered), nil
}

// beatSpots prolongs claims where they were last seen, in one flight, and learns when
// those that wait need to look.
func (s *session) beatSpots(ctx context.Context, all []*pulse) error {
	var lines, heads []*pulse
	for _, p := range all {
		p.inHead, p.inLine = false, false
		if p.spot.head {
			heads = append(heads, p)
		} else {
			lines = append(lines, p)
		}
	}
	var told rests
	f := Flight{Beat: true, Steps: s.beatLines(lines)}
	f.Steps = append(f.Steps, s.beatHeads(heads)...)
	f.Steps = append(f.Steps, told.steps(s, lines)...)
	sent := time.Now()
	if err := s.pulse(ctx, &f, all); err != nil {
		return err
	}
	told.learn(s, lines, sent)
	return nil
}

// seek beats claims in both places and looks for those that neither had. The
// line comes before the head row, as a claim moves: should it move between the
// two, it is met in the second. What find sees is of one moment.
func (s *session) seek(ctx context.Context, rest []*pulse) error {
	f := Flight{Beat: true}
	for _, p := range rest {
		p.inHead, p.inLine, p.found = false, false, false
		f.Steps = append(f.Steps, s.beatLine(p, s.e.q.beat))
		if p.c.Exclusive() {
			f.Steps = append(f.Steps, s.beatHead(p, s.e.q.beatX))
		}
		f.Steps = append(f.Steps, Step{Query: s.e.q.find, Args: p.a, Row: func(r Row) error {
			var head, token int64
			err := r.Scan(&head, &token)
			if p.found = true; p.same(token) {
				p.spot = spotHint{token: token, head: head != 0}
			}
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
		case p.other: // it stays known, so that Close ends it
			*p.st = driver.Standing{Gone: true}
			continue
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
		s.waited(p, false)
	}
	return nil
}

func (s *session) beatHead(p *pulse, q *Query) Step {
	return Step{Query: q, Args: p.a, Row: func(r Row) error {
		var token int64
		err := r.Scan(&token)
		p.head(token)
		return err
	}}
}

// beatHeads are beatHead for many: one step, where one statement does it.
func (s *session) beatHeads(all []*pulse) []Step {
	if s.e.q.beatsX.Text == "" || len(all) < 2 {
		return beatEach(all, s.e.q.beatX, s.beatHead)
	}
	a, by := s.many(all)
	return []Step{{Query: s.e.q.beatsX, Args: a, Row: func(r Row) error {
		var id string
		var token int64
		if err := r.Scan(&id, &token); err != nil {
			return err
		}
		if p := by[id]; p != nil {
			p.head(token)
		}
		return nil
	}}}
}

// beatLines are beatLine for many, as beatHeads.
func (s *session) beatLines(all []*pulse) []Step {
	if s.e.q.beats.Text == "" || len(all) < 2 {
		return beatEach(all, s.e.q.beat, s.beatLine)
	}
	a, by := s.many(all)
	return []Step{{Query: s.e.q.beats, Args: a, Row: func(r Row) error {
		var id string
		var held int64
		if err := r.Scan(&id, &held); err != nil {
			return err
		}
		if p := by[id]; p != nil {
			p.line(held)
		}
		return nil
	}}}
}

func beatEach(all []*pulse, q *Query, step func(*pulse, *Query) Step) []Step {
	steps := make([]Step, len(all))
	for i, p := range all {
		steps[i] = step(p, q)
	}
	return steps
}

// many are the parameters of a statement about many claims, and these by their IDs.
func (s *session) many(all []*pulse) (*Args, map[string]*pulse) {
	a := &Args{list: make([]*Args, len(all))}
	a.setDuration(TTL, s.ttl)
	by := make(map[string]*pulse, len(all))
	for i, p := range all {
		p.a.set(Token, p.spot.token)
		a.list[i], by[p.c.ID] = p.a, p
	}
	return a, by
}

func (s *session) beatLine(p *pulse, q *Query) Step {
	p.a.set(Token, p.spot.token)
	return Step{Query: q, Args: p.a, Row: func(r Row) error {
		var held int64
		err := r.Scan(&held, &p.spot.token)
		p.line(held)
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
