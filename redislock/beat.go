package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// beatChunk is how many claims one piece prolongs.
const beatChunk = 500

// Beat prolongs claims, a chunk a piece. Each answers for itself, and what one
// node or one chunk does not answer costs the others nothing.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.e.policy.again()
	if len(live) == 0 {
		if err := s.silent(ctx); err != nil {
			return err
		}
	}
	var failed error
	for from := 0; from < len(live) && ctx.Err() == nil; from += beatChunk {
		to := min(from+beatChunk, len(live))
		if err := s.beat(ctx, live[from:to], out[from:to]); err != nil {
			failed = err
		}
	}
	if err := ctx.Err(); err != nil {
		failed = err
	}
	s.mu.Lock()
	s.stuck = errors.Is(failed, context.DeadlineExceeded)
	s.mu.Unlock()
	if s.e.keys.cluster {
		s.e.sweepEars()
	}
	return failed
}

func (s *session) beat(ctx context.Context, live []driver.Claim, out []driver.Standing) (failed error) {
	e := s.e
	calls := make([]Command, len(live))
	var sc *script
	for i := range live {
		at, own := s.of(&live[i])
		var keys int
		var args []string
		sc, keys, args = s.looking(at, own)
		calls[i] = Command{at.hold, sc.call(keys, args)}
	}
	answers, sent := make([]Answer, len(live)), time.Now()
	runEach(ctx, sc, s.sender(), calls, answers)
	if e.keys.cluster {
		s.renew(ctx, live, answers)
	}
	for i := range live {
		c, a := &live[i], &answers[i]
		out[i] = driver.Standing{}
		if a.Err != nil {
			failed = e.faultAt(c.Name, a.Err)
			continue
		}
		if err := s.withheld(a.Reply); err != nil {
			failed = err
			continue
		}
		st, err := s.standing(c, a.Reply)
		if err != nil {
			failed = err
			continue
		}
		out[i] = st
		switch {
		case st.Gone:
			s.left(*c)
		case st.Held: // should it still wait to be told, it is told now
			s.told(c.ID, c.Try, st.Token)
		default:
			s.learnt(c, sent, a.Reply.Array)
		}
	}
	return failed
}

// renew prolongs holds whose slot is being moved: a move may take longer than a
// lease lasts, and until its end the keys that look needs are not together.
func (s *session) renew(ctx context.Context, live []driver.Claim, answers []Answer) {
	var calls []Command
	var at []int
	for i := range live {
		if !moving(answers[i].Err) {
			continue
		}
		p, own := s.of(&live[i])
		args, keys := []string{p.hold, own, s.millis}, 1
		if !live[i].Exclusive() {
			args, keys = []string{p.hold, p.line, p.lives, own, s.millis}, 3
		}
		calls, at = append(calls, Command{p.hold, renewScript.call(keys, args)}), append(at, i)
	}
	if len(calls) == 0 {
		return
	}
	out := make([]Answer, len(calls))
	runEach(ctx, renewScript, s.e.c.Each, calls, out)
	for i, a := range out {
		if a.Err == nil && a.Text != "" {
			answers[at[i]] = a
		}
	}
}

// sender is how the next beat goes out: where the last had no answer in time its
// connection may be dead without having said so, and a lease must not end for it.
func (s *session) sender() func(context.Context, []Command, []Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		return s.e.c.Fresh
	}
	return s.e.c.Each
}
