package scriptless

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

const (
	pollPause = 100 * time.Millisecond // between two tries of a waiter
	chunk     = 500                    // claims that are sent at a time
)

var _ driver.Leaver = (*session)(nil)

// session is one client's holds.
type session struct {
	store  *store
	id     string
	ttl    time.Duration
	millis string // ttl, as an argument
	part   string // what all holds of the session have in common
	claims *driverkit.Claims[struct{}]
	beater redisclient.Beater
}

func newSession(st *store, o driver.SessionOptions) *session {
	s := &session{store: st, id: o.ID, claims: driverkit.NewClaims[struct{}]()}
	s.ttl, s.millis = redisclient.Expiry(o.TTL)
	s.part = keyspace.SessionPart(o.ID, s.millis)
	return s
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// Enter takes a free name with one command. The reply of SET NX GET is the present
// value, so a repeated Enter recognises its own hold.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if c.Queue || !c.Exclusive() {
		return driver.Standing{}, driver.ErrUnsupported
	}
	if err := s.store.Eviction.Err(ctx); err != nil {
		return driver.Standing{}, err
	}
	p, before, err := s.claims.Add(ctx, c, struct{}{})
	if err != nil {
		return driver.Standing{}, err
	}
	st, err := s.enter(ctx, &c)
	switch {
	case st.Held:
		if s.claims.Closed() { // Close may have ended the claims before this one was there
			_ = s.leave(ctx, c) // if it fails, the hold expires
			return driver.Standing{}, driver.ErrGone
		}
	case err == nil && !st.Gone:
		s.claims.End(c)
	case redisclient.Refused(err):
		s.claims.Refused(p, before)
	}
	return st, err
}

func (s *session) enter(ctx context.Context, c *driver.Claim) (driver.Standing, error) {
	held := driver.Standing{Held: true, Valid: s.ttl}
	key, mine := s.store.Keys.Hold(c.Name), s.value(c)
	for {
		r, err := s.store.Client.Do(ctx, redisclient.Command("SET", key, mine, "NX", "GET", "PX", s.millis))
		if err != nil {
			return driver.Standing{}, redisclient.WrapHold(key, err)
		}
		if r.Null {
			return held, nil
		}
		x, _ := keyspace.ParseHold(c.Name, r.Text, 0)
		switch {
		case x.ID != c.ID:
			return driver.Standing{Ahead: 1, Holder: &x, Pause: pollPause}, nil
		case x.Try > c.Try:
			return driver.Standing{Gone: true}, nil
		}
		// A repeated Enter prolongs as the first did; a lower Try is replaced.
		r, err = s.store.Client.Do(ctx, s.store.commands.Load().renew(key, r.Text, mine, s.millis))
		if err != nil {
			return driver.Standing{}, redisclient.Wrap(err)
		}
		if renewed(r) {
			return held, nil
		} // the hold ended between the two commands
	}
}

// renewed reads the reply to a renewal: OK of SET IFEQ, 1 of CAS.
func renewed(r redisclient.Reply) bool { return !r.Null && (r.Text == "OK" || r.Int == 1) }

// Await waits for a while: nothing notifies that the name is free.
func (s *session) Await(ctx context.Context, _ driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	timer := time.NewTimer(pollPause/2 + rand.N(pollPause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return driver.Standing{Ahead: -1, Pause: pollPause}, nil
	case <-s.claims.Ended():
		return driver.Standing{}, driver.ErrGone
	case <-ctx.Done():
		return driver.Standing{}, ctx.Err()
	}
}

// Beat renews each hold that is still there.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	s.store.Eviction.Refresh(s.store.sessions.Go)
	calls := make([]redisclient.Call, len(live))
	for i := range live {
		value := s.value(&live[i])
		calls[i] = s.store.commands.Load().renew(s.store.Keys.Hold(live[i].Name), value, value, s.millis)
	}
	send, end, err := s.beater.Begin(ctx, s.store.Client)
	if err != nil {
		return err
	}
	err = redisclient.InChunks(ctx, s.store.Client, calls, chunk, func(at []int) (failed error) {
		for k, a := range redisclient.SendSome(ctx, send, calls, at) {
			st, err := s.beatAnswer(&live[at[k]], a)
			out[at[k]] = st
			if err != nil {
				failed = err
			}
		}
		return failed
	})
	end(err)
	return err
}

func (s *session) beatAnswer(c *driver.Claim, a redisclient.Answer) (driver.Standing, error) {
	switch {
	case a.Err != nil && redisclient.Code(a.Err) != "WRONGTYPE":
		return driver.Standing{}, redisclient.Wrap(a.Err)
	case a.Err == nil && renewed(a.Reply):
		return driver.Standing{Held: true, Valid: s.ttl}, nil
	}
	s.claims.End(*c)
	return driver.Standing{Gone: true}, nil
}

// Leave deletes the hold of this Try with one command, and looks for that of a lower
// Try only if it was not there.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

// LeaveAll deletes the holds of many claims.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if err := s.claims.Begin(ctx); err != nil {
		for i := range out {
			out[i] = err
		}
		return
	}
	s.leaveAll(ctx, cs, out)
}

// Close deletes the session's holds.
func (s *session) Close(ctx context.Context) (failed error) {
	left := s.claims.Close()
	s.store.sessions.Remove(s.id, s)
	out := make([]error, len(left))
	s.leaveAll(ctx, left, out)
	for _, err := range out {
		if err != nil && !errors.Is(err, driver.ErrGone) {
			failed = err
		}
	}
	return failed
}

// errNotReached is the answer for a claim that was not asked for before ctx ended.
var errNotReached = errors.New("not reached")

func (s *session) leaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	calls, reads := make([]redisclient.Call, len(cs)), make([]redisclient.Call, len(cs))
	for i := range cs {
		key := s.store.Keys.Hold(cs[i].Name)
		calls[i], reads[i] = s.store.commands.Load().remove(key, s.value(&cs[i])), redisclient.Command("GET", key)
		out[i] = errNotReached
	}
	_ = redisclient.InChunks(ctx, s.store.Client, calls, chunk, func(at []int) error {
		var absent []int
		for k, a := range redisclient.SendSome(ctx, s.store.Client.DoMany, calls, at) {
			i := at[k]
			if out[i] = redisclient.Wrap(a.Err); a.Err == nil && a.Int <= 0 {
				absent = append(absent, i)
			}
		}
		for k, a := range redisclient.SendSome(ctx, s.store.Client.DoMany, reads, absent) {
			i := absent[k]
			out[i] = s.removeLower(ctx, reads[i].Keys[0], &cs[i], a)
		}
		return nil
	}) // out has the errors
	for i := range out {
		if out[i] == errNotReached {
			out[i] = ctx.Err()
		}
		if out[i] == nil || errors.Is(out[i], driver.ErrGone) {
			s.claims.End(cs[i])
		}
	}
}

func (s *session) leave(ctx context.Context, c driver.Claim) error {
	key := s.store.Keys.Hold(c.Name)
	err := s.store.remove(ctx, key, s.value(&c))
	if errors.Is(err, driver.ErrGone) {
		err = s.leaveLower(ctx, key, &c)
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.claims.End(c)
	}
	return err
}

func (s *session) leaveLower(ctx context.Context, key string, c *driver.Claim) error {
	r, err := s.store.Client.Do(ctx, redisclient.Command("GET", key))
	return s.removeLower(ctx, key, c, redisclient.Answer{Reply: r, Err: err})
}

// removeLower deletes the hold of a lower Try, if its key was read as a.
func (s *session) removeLower(ctx context.Context, key string, c *driver.Claim, a redisclient.Answer) error {
	if a.Err != nil {
		return redisclient.WrapHold(key, a.Err)
	}
	if x, _ := keyspace.ParseHold(c.Name, a.Text, 0); a.Null || x.ID != c.ID || x.Try > c.Try {
		return driver.ErrGone
	}
	return s.store.remove(ctx, key, a.Text)
}

// value returns the value of a claim's hold. Its token is 0: there are none.
func (s *session) value(c *driver.Claim) string {
	return keyspace.HoldPrefix(c) + "0" + keyspace.HoldSuffix(c.Limit, s.part, c.Note)
}
