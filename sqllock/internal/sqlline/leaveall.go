package sqlline

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

const (
	leaveChunk = 100 // claims of one line, or holds, in one batch

	// leaveLanes is how many batches of a session leave claims at a time, and how many
	// where each statement of a batch is a round trip, so that each has one line.
	leaveLanes     = 2
	leaveLanesEach = 8
)

// LeaveAll leaves claims in batches: those of one name in one, and of several names
// together where the dialect sends a batch in one round trip. Holds on names of which
// nothing else leaves are released by one statement each.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if err := s.claims.Begin(ctx); err != nil {
		for i := range out {
			out[i] = err
		}
		return
	}
	s.leaveAll(ctx, cs, out)
}

// A leaving is one claim in a LeaveAll.
type leaving struct {
	claim    driver.Claim
	args     *sqlstore.Args
	waiting  bool // when it was last seen
	ended    bool // the last batch has ended it
	answered bool
	err      *error // the answer
}

func (p *leaving) answer(err error) { p.answered, *p.err = true, err }

func (s *session) leaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	all := make([]*leaving, len(cs))
	for i, c := range cs {
		all[i] = &leaving{claim: c, args: s.args(c), err: &out[i], waiting: s.stateOf(c).seen.waiting}
		all[i].args.Num[sqlstore.MaxTry] = int64(c.Try)
	}
	slices.SortStableFunc(all, func(a, b *leaving) int { return strings.Compare(a.claim.Name, b.claim.Name) })
	var holds []*leaving
	var lines [][]*leaving
	for from, to := 0, 0; from < len(all); from = to {
		for to = from; to < len(all) && to-from < leaveChunk && all[to].claim.Name == all[from].claim.Name; {
			to++
		}
		if of := all[from:to]; len(of) == 1 && of[0].claim.Exclusive() && !of[0].waiting {
			holds = append(holds, of...)
		} else {
			lines = append(lines, of)
		}
	}
	s.leaveInLanes(ctx, slices.Collect(slices.Chunk(holds, leaveChunk)), s.releaseHolds)
	for i := range holds {
		if !holds[i].answered && ctx.Err() == nil { // it was not found to hold
			lines = append(lines, holds[i:i+1])
		}
	}
	s.leaveInLanes(ctx, s.leaveBatches(lines), s.leaveLines)
	for _, p := range all {
		if !p.answered {
			p.answer(ctx.Err())
		}
	}
}

// leaveInLanes runs a batch for each part, some at a time, until ctx ends.
func (s *session) leaveInLanes(ctx context.Context, parts [][]*leaving, run func(context.Context, []*leaving)) {
	var all sync.WaitGroup
	defer all.Wait() // each ends with ctx
	for _, part := range parts {
		select {
		case s.leaveLanes <- struct{}{}:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			defer func() { <-s.leaveLanes }()
			run(ctx, part)
		})
	}
}

// releaseHolds releases exclusive holds in one batch, and grants those that claims wait
// for. It does not answer for claims that it did not find to hold.
func (s *session) releaseHolds(ctx context.Context, all []*leaving) {
	b := sqlstore.Batch{}
	waiting := make([]int64, len(all)) // -1: was not released
	for i, p := range all {
		waiting[i] = -1
		b.Steps = append(b.Steps, s.releaseStep(p.args, func(n int64) { waiting[i] = n }))
	}
	err := s.e.d.Store.Run(ctx, &b)
	var next []string
	for i, p := range all {
		switch {
		case err != nil:
			p.answer(err)
		case waiting[i] > 0:
			next = append(next, p.args.Key())
		}
	}
	s.e.handOverAll(ctx, next) // the names are released; waiters look for themselves, only later
	for i, p := range all {
		if err == nil && waiting[i] >= 0 {
			s.left(ctx, p)
		}
	}
}

// left answers for a claim that was ended.
func (s *session) left(ctx context.Context, p *leaving) {
	guarded := s.stateOf(p.claim).guard != nil
	s.claims.End(p.claim)
	if guarded {
		s.e.notifyFirst(ctx, p.claim.Name)
	}
	s.e.pollSoon(p.claim.Name) // for watchers
	p.answer(nil)
}

// leaveBatches puts lines together as they go into batches. The claims of a line are
// not taken apart.
func (s *session) leaveBatches(lines [][]*leaving) (batches [][]*leaving) {
	n := linesChunk // of the last batch
	for _, of := range lines {
		if last := len(batches) - 1; n < linesChunk && len(batches[last])+len(of) <= leaveChunk && !s.e.d.eachStatement() {
			batches[last] = append(batches[last], of...)
			n++
			continue
		}
		batches, n = append(batches, slices.Clone(of)), 1
	}
	return batches
}

// leaveLines ends claims in lines and grants what fits then, in one batch. If the row of
// one of them is locked for long, each is left by itself, for as long as the batch had:
// the others do not wait for that one.
func (s *session) leaveLines(ctx context.Context, all []*leaving) {
	lines := byLine(all)
	if len(lines) == 1 {
		s.tryLeave(ctx, lines)
		return
	}
	try := func(lines ...[]*leaving) bool {
		ctx, cancel := context.WithTimeout(ctx, halfOf(ctx))
		defer cancel()
		return s.tryLeave(ctx, lines)
	}
	if try(lines...) {
		return
	}
	for _, of := range lines {
		if ctx.Err() == nil {
			try(of)
		}
	}
}

// tryLeave ends claims in one batch and answers for them. It reports false, without an
// answer, if that failed for several lines.
func (s *session) tryLeave(ctx context.Context, lines [][]*leaving) bool {
	b := s.e.newLineBatch()
	b.left = map[string]bool{}
	b.NoWait = len(lines) > 1
	for _, of := range lines {
		s.e.addEnd(b, of[0].args, func() { s.addLeave(b, of) })
	}
	err := s.e.run(ctx, b)
	if len(lines) > 1 && (err != nil || b.Missing) {
		return false
	}
	var granted []*leaving
	for _, p := range slices.Concat(lines...) {
		switch {
		case err != nil:
			p.answer(err)
		case p.ended && !b.Missing:
			s.left(ctx, p)
		case p.waiting && p.claim.Exclusive() && !b.Missing: // it may have been granted since it was seen
			p.waiting = false
			granted = append(granted, p)
		default:
			s.claims.End(p.claim)
			p.answer(driver.ErrGone)
		}
	}
	for _, of := range byLine(granted) {
		s.tryLeave(ctx, [][]*leaving{of})
	}
	return true
}

// byLine splits claims, which are in the order of their names, by name.
func byLine(all []*leaving) (lines [][]*leaving) {
	for i := range all {
		if i == 0 || all[i].claim.Name != all[i-1].claim.Name {
			lines = append(lines, nil)
		}
		last := len(lines) - 1
		lines[last] = append(lines[last], all[i])
	}
	return lines
}

// addLeave appends the statements that end claims of one line.
func (s *session) addLeave(b *lineBatch, all []*leaving) {
	q := s.e.q
	byID := make(map[string]*leaving, len(all))
	var many []*sqlstore.Args
	for _, p := range all {
		p.ended = false
		b.left[p.claim.ID] = true
		ended := func(sqlstore.Row) error { p.ended, b.departed = true, true; return nil }
		if q.DeleteClaims.Empty() || p.claim.Try != 1 {
			b.addRow(p.args, q.DeleteClaim, ended)
		} else {
			many, byID[p.claim.ID] = append(many, p.args), p
		}
		if p.claim.Exclusive() && !p.waiting {
			b.addRow(p.args, q.ReleaseHold, ended)
		}
	}
	if len(many) == 0 {
		return
	}
	a := sqlstore.Named(many[0].Key())
	a.List, a.Num[sqlstore.MaxTry] = many, 1
	for _, q := range []*sqlstore.Statement{q.LeavingClaims, q.DeleteClaims} {
		b.addRow(a, q, func(r sqlstore.Row) error {
			var id string
			err := r.Scan(&id)
			if p := byID[id]; p != nil {
				p.ended = true
			}
			return err
		})
	}
}
