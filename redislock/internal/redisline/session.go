package redisline

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// session is one client's claims. Each has an expiry of its own, set by Enter and
// moved by Beat; the session itself is not stored.
type session struct {
	store  *store
	id     string
	ttl    time.Duration
	millis string // ttl, as an argument
	part   string // what all holds of the session have in common
	claims *driverkit.Claims[claimState]
	beater redisclient.Beater

	mu         sync.Mutex  // guards what follows
	args       argCache    // of the claim that was entered last
	membership *membership // in a quorum; nil: none
}

func newSession(st *store, o driver.SessionOptions) *session {
	s := &session{store: st, id: o.ID, claims: driverkit.NewClaims[claimState]()}
	s.ttl, s.millis = redisclient.Expiry(o.TTL)
	s.part = keyspace.SessionPart(o.ID, s.millis)
	return s
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// Enter asks for a claim in one script.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.store.Eviction.Err(ctx); err != nil {
		return driver.Standing{}, err
	}
	if err := s.store.rights.err(ctx, s.store, &c); err != nil {
		return driver.Standing{}, err
	}
	channel := s.store.Keys.Channel(c.Name)
	state := claimState{keys: s.store.Keys.Of(c.Name), prefix: keyspace.HoldPrefix(&c)}
	p, before, err := s.claims.Add(ctx, c, state)
	if err != nil {
		return driver.Standing{}, err
	}
	p.Waiter.Current(s.store.subscriptions.Generation(channel))
	r, epoch, err := s.enter(ctx, &c, state, s.arguments(&c, channel))
	if err != nil {
		if redisclient.Refused(err) || errors.Is(err, driver.ErrNoVote) {
			s.claims.Refused(p, before)
		} else {
			s.unanswered(&c)
		}
		return driver.Standing{}, s.store.wrap(c.Name, err)
	}
	st, err := s.standing(&c, r)
	st.Epoch = epoch
	switch {
	case st.Held || st.Valid > 0:
		s.answered(&c, r, st.Held)
		if s.claims.Closed() { // Close may have ended the claims before this one was there
			_ = s.leave(ctx, c) // if it fails, the claim expires
			return driver.Standing{}, driver.ErrGone
		}
	case !st.Gone:
		s.claims.End(c)
	}
	return st, err
}

func (s *session) enter(ctx context.Context, c *driver.Claim, state claimState, args argCache) (r redisclient.Reply, epoch uint64, err error) {
	if m := s.quorum(); m != nil {
		return s.enterQuorum(ctx, c, state, m, args.waiting)
	}
	r, err = again(ctx, func() (redisclient.Reply, error) {
		return s.grant(ctx, c, s.enterCall(c, state, args), s.store.ReplicaTimeout)
	})
	return r, 0, err
}

func (s *session) enterCall(c *driver.Claim, state claimState, args argCache) redisclient.Call {
	call := redisclient.Call{
		Script: enterScript,
		Keys:   state.keys.All(),
		Args:   []string{state.prefix, args.suffix, s.millis, args.waiting},
	}
	switch {
	case c.Propose != 0:
		call.Args = append(call.Args, strconv.FormatUint(c.Propose, 10))
	case c.Exclusive():
		call.Merge = mergedEnter
	}
	if !c.Exclusive() {
		call.Script = shareScript
	}
	return call
}

// Leave gives back a claim in one script, which lets in and notifies the next.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

// LeaveAll gives back claims, those of one name by few scripts.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if err := s.claims.Begin(ctx); err != nil {
		for i := range out {
			out[i] = err
		}
		return
	}
	s.leaveAll(ctx, cs, out)
}

// Close ends the session's claims.
func (s *session) Close(ctx context.Context) (failed error) {
	left := s.claims.Close()
	s.store.sessions.Remove(s.id, s)
	out := make([]error, len(left))
	s.leaveAll(ctx, left, out)
	for i, err := range out {
		switch {
		case err == nil:
		case errors.Is(err, driver.ErrGone):
			s.claims.End(left[i]) // also one whose Enter may still arrive: then it expires
		case redisclient.Code(err) != "WRONGTYPE": // else the key is not ours
			failed = err
		}
	}
	return failed
}
