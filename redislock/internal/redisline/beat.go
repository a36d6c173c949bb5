package redisline

import (
	"context"
	"errors"
	"fmt"
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

// Beat prolongs claims. Each is answered by itself: a node or a chunk that does not
// answer does not affect the others.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	s.store.Eviction.Refresh(s.store.sessions.Go)
	if len(live) == 0 {
		if err := s.checkVotes(ctx); err != nil {
			return err
		}
	}
	var failed error
	size := chunk
	if s.store.Replicas > 0 {
		size = confirmedChunk
	}
	for from := 0; from < len(live) && ctx.Err() == nil; from += size {
		to := min(from+size, len(live))
		if err := s.beatChunk(ctx, live[from:to], out[from:to]); err != nil {
			failed = err
		}
	}
	if err := ctx.Err(); err != nil {
		failed = err
	}
	s.mu.Lock()
	s.timedOut = errors.Is(failed, context.DeadlineExceeded)
	s.mu.Unlock()
	return failed
}

func (s *session) beatChunk(ctx context.Context, live []driver.Claim, out []driver.Standing) (failed error) {
	calls := make([]redisclient.Call, len(live))
	for i := range live {
		calls[i] = s.beatCall(&live[i])
	}
	answers, sent := make([]redisclient.Answer, len(live)), time.Now()
	redisclient.RunMany(ctx, s.sender(), calls, answers)
	if s.store.Keys.Cluster() {
		s.renewMoving(ctx, live, answers)
	}
	for i := range live {
		st, err := s.beatAnswer(&live[i], sent, answers[i])
		out[i] = st
		if err != nil {
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
			p.Waiter.Beaten(sent, millis(a.Array[1].Int), a.Array[2].Text, s.ttl)
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
		case out[i].Err != nil || out[i].Text == "": // not held: there is nothing that replicas must have
		case w.Err != nil:
			out[i].Err = w.Err
		case w.Int < int64(want):
			out[i].Err = fmt.Errorf("a renewal reached %d of %d replicas within %v", w.Int, want, within)
		}
	}
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

// sender returns how the next beat is sent: if the last one had no answer in time, its
// connection may be dead without notice, and a lease must not end because of that.
func (s *session) sender() func(context.Context, []redisclient.Call, []redisclient.Answer) {
	if s.store.Replicas > 0 {
		return s.sendConfirmed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timedOut {
		return s.store.Client.DoManyFresh
	}
	return s.store.Client.DoMany
}
