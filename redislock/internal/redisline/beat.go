package redisline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// chunk is the number of claims that are sent at a time; confirmedChunk that of claims
// whose renewal replicas confirm, of which each chunk takes two round trips.
const (
	chunk          = 500
	confirmedChunk = 2500
)

// Beat prolongs claims, those of one name that wait or share by few scripts. Each is
// answered by itself: a node or a chunk that does not answer does not affect the others.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	s.store.Eviction.Refresh(s.store.sessions.Go)
	if len(live) == 0 {
		return s.checkVotes(ctx)
	}
	of := groups(live, s.beatKey)
	calls := make([]redisclient.Call, len(of))
	for i, at := range of {
		calls[i] = s.beatCall(live, at)
	}
	if s.store.Replicas > 0 {
		return redisclient.InChunks(ctx, s.store.Client, calls, confirmedChunk, func(chunk []int) error {
			return s.beatChunk(ctx, s.sendConfirmed, chunk, calls, of, live, out)
		})
	}
	send, end, err := s.beater.Begin(ctx, s.store.Client)
	if err != nil {
		return err
	}
	err = redisclient.InChunks(ctx, s.store.Client, calls, chunk, func(chunk []int) error {
		return s.beatChunk(ctx, send, chunk, calls, of, live, out)
	})
	end(err)
	return err
}

// beatKey says which claims one script prolongs: those of a name that wait, and those
// that share it. An exclusive hold is cheaper alone, and comes before them; so does what
// is left to a node of a quorum.
func (s *session) beatKey(c *driver.Claim) string {
	held := false
	s.claims.With(c.ID, c.Try, func(p *claimed) { held = p.State.returned })
	if held && c.Exclusive() || s.quorum() != nil {
		return ""
	}
	return flag(held) + c.Name
}

// beatCall prolongs claims of one name. A node of a quorum does not answer while it does
// not vote.
func (s *session) beatCall(live []driver.Claim, at []int) redisclient.Call {
	keys, prefix := s.keysOf(&live[at[0]])
	if m := s.quorum(); m != nil {
		return redisclient.Call{
			Script: quorumLookScript,
			Keys:   []string{keys.Hold, keys.Line, keys.Fence, s.store.Keys.Membership()},
			Args:   []string{prefix, s.millis, "1", m.list, m.run},
		}
	}
	if len(at) == 1 {
		return redisclient.Call{Script: lookScript, Keys: keys.All(), Args: []string{prefix, s.millis, "1"}}
	}
	args := make([]string, 1, 1+len(at))
	args[0] = s.millis
	for _, i := range at {
		_, prefix := s.keysOf(&live[i])
		args = append(args, prefix)
	}
	return redisclient.Call{Script: lookManyScript, Keys: keys.All(), Args: args, Claims: len(at)}
}

// beatChunk sends the calls of a chunk, and takes in the answers for the claims that they
// are about.
func (s *session) beatChunk(ctx context.Context, send redisclient.Many, chunk []int, calls []redisclient.Call, of [][]int, live []driver.Claim, out []driver.Standing) (failed error) {
	claims, answers, sent := s.answersOf(ctx, send, chunk, calls, of)
	if s.store.Keys.Cluster() {
		s.renewMoving(ctx, pick(live, claims), answers)
	}
	for k, i := range claims {
		st, err := s.beatAnswer(&live[i], sent, answers[k])
		out[i] = st
		if err != nil && !errors.Is(failed, driver.ErrGone) {
			failed = err
		}
	}
	return failed
}

func (s *session) beatAnswer(c *driver.Claim, sent time.Time, a redisclient.Answer) (driver.Standing, error) {
	if a.Err != nil {
		return driver.Standing{}, s.store.wrap(c.Name, a.Err)
	}
	if err := s.noVote(a.Reply); err != nil {
		return driver.Standing{}, err
	}
	st, err := s.standing(c, a.Reply)
	if err != nil {
		return driver.Standing{}, err
	}
	switch {
	case st.Gone:
		s.claims.End(*c)
	case st.Held: // if the message of its grant was missed, this wakes its Await
		s.granted(c.ID, c.Try, st.Token)
	default:
		if p := s.claims.Find(c.ID, c.Try); p != nil { // see still in line.lua
			pause := millis(a.Array[1].Int)
			if len(a.Array) == 2 {
				p.Waiter.Postpone(sent, pause)
			} else {
				p.Waiter.Beaten(sent, pause, a.Array[2].Text, s.ttl)
			}
		}
	}
	return st, nil
}

// sendConfirmed sends a beat, and behind it WAIT. A hold whose renewal too few replicas
// have is not answered: if one of them is promoted, the hold ends there as it would have
// without this renewal. A master that is cut off with its clients prolongs nothing.
func (s *session) sendConfirmed(ctx context.Context, calls []redisclient.Call, out []redisclient.Answer) {
	want, within := s.store.Replicas, min(s.store.ReplicaTimeout, s.ttl/6)
	if at, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(at)/2) // so that the answers arrive before ctx ends
	}
	waits := make([]redisclient.Answer, len(calls))
	s.store.Client.DoManyThen(ctx, calls, redisclient.Wait(want, within), out, waits)
	for i, w := range waits {
		switch {
		case out[i].Err != nil || !holds(&calls[i], out[i].Reply): // there is nothing that replicas must have
		case w.Err != nil:
			out[i].Err = w.Err
		case w.Int < int64(want):
			out[i].Err = fmt.Errorf("a renewal reached %d of %d replicas within %v", w.Int, want, within)
		}
	}
}

// holds reports whether one of the claims that a call is about holds.
func holds(c *redisclient.Call, r redisclient.Reply) bool {
	if c.Claims == 0 {
		return r.Text != ""
	}
	return slices.ContainsFunc(r.Array, func(one redisclient.Reply) bool { return one.Text != "" })
}

// renewMoving prolongs holds whose slot is being moved: that may take longer than a
// lease lasts, and until its end the keys that look needs are on two nodes.
func (s *session) renewMoving(ctx context.Context, live []driver.Claim, answers []redisclient.Answer) {
	var calls []redisclient.Call
	var at []int
	for i := range live {
		if !redisclient.Moving(answers[i].Err) {
			continue
		}
		keys, prefix := s.keysOf(&live[i])
		call := redisclient.Call{Script: moveRenewScript, Keys: []string{keys.Hold}, Args: []string{prefix, s.millis}}
		if !live[i].Exclusive() {
			call.Keys = []string{keys.Hold, keys.Line, keys.Expiries}
		}
		calls, at = append(calls, call), append(at, i)
	}
	if len(calls) == 0 {
		return
	}
	out := make([]redisclient.Answer, len(calls))
	redisclient.RunMany(ctx, s.store.Client.DoMany, calls, out)
	for i, a := range out {
		if a.Err == nil && a.Text != "" {
			answers[at[i]] = a
		}
	}
}
