package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// barePause is how long those wait who must ask again to know.
const barePause = 100 * time.Millisecond

// bareSession is one client's holds on a server without scripts.
type bareSession struct {
	e      *bare
	cmp    *comparer
	ttl    time.Duration
	millis string
	tail   string
	done   chan struct{} // closed by Close

	mu     sync.Mutex              // guards what follows
	claims map[string]driver.Claim // added before they are sent, removed when they have certainly ended
	closed bool
}

func (s *bareSession) TTL() time.Duration    { return s.ttl }
func (s *bareSession) Lost() <-chan struct{} { return nil }

func (s *bareSession) begin(ctx context.Context, enter ...driver.Claim) error {
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

func (s *bareSession) ended(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.claims[c.ID]; ok && have.Try <= c.Try {
		delete(s.claims, c.ID)
	}
}

// value is the hold of a claim. Its token is 0: there is none.
func (s *bareSession) value(c *driver.Claim) string {
	return own(c) + "0 " + strconv.Itoa(c.Limit) + s.tail + c.Note
}

// Enter takes a free name with one command. The reply to SET NX GET is the value
// that stands, so a repeat knows its own hold.
func (s *bareSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if c.Queue || !c.Exclusive() {
		return driver.Standing{}, driver.ErrUnsupported
	}
	if err := s.e.policy.fine(ctx); err != nil {
		return driver.Standing{}, err
	}
	if err := s.begin(ctx, c); err != nil {
		return driver.Standing{}, err
	}
	st, err := s.enter(ctx, &c)
	switch {
	case st.Held:
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed { // Close may have looked before it was there
			_ = s.depart(ctx, c) // what stays expires
			return driver.Standing{}, driver.ErrGone
		}
	case err == nil && !st.Gone, code(err) != "" && code(err) != "ERR":
		s.ended(c)
	}
	return st, err
}

func (s *bareSession) enter(ctx context.Context, c *driver.Claim) (driver.Standing, error) {
	held := driver.Standing{Held: true, Valid: s.ttl}
	key, mine := s.e.keys.hold(c.Name), s.value(c)
	for {
		r, err := s.e.c.Do(ctx, key, []string{"SET", key, mine, "NX", "GET", "PX", s.millis})
		if err != nil {
			return driver.Standing{}, s.e.wrongKey(c.Name, err)
		}
		if r.Null {
			return held, nil
		}
		x := holds(c.Name, r.Text, 0)
		switch {
		case x.ID != c.ID:
			return driver.Standing{Ahead: 1, Holder: &x, Pause: barePause}, nil
		case x.Try > c.Try:
			return driver.Standing{Gone: true}, nil
		}
		// A repeat is prolonged as the first was; an earlier try is replaced.
		done, err := s.renew(ctx, key, r.Text, mine)
		if err != nil {
			return driver.Standing{}, err
		}
		if done {
			return held, nil
		} // it ended between the two commands: ask again
	}
}

func (s *bareSession) renew(ctx context.Context, key, value, next string) (bool, error) {
	r, err := s.e.c.Do(ctx, key, s.cmp.renew(key, value, next, s.millis))
	if err != nil {
		return false, fault(err)
	}
	return renewed(r), nil
}

// renewed reads the reply to a renewal: OK from SET IFEQ, 1 from CAS.
func renewed(r Reply) bool { return !r.Null && (r.Text == "OK" || r.Int == 1) }

// Await waits a little: nothing tells that the name may be free.
func (s *bareSession) Await(ctx context.Context, _ driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	timer := time.NewTimer(barePause/2 + rand.N(barePause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return driver.Standing{Ahead: -1, Pause: barePause}, nil
	case <-s.done:
		return driver.Standing{}, driver.ErrGone
	case <-ctx.Done():
		return driver.Standing{}, ctx.Err()
	}
}

// Leave deletes the hold of this try with one command, and looks for that of an
// earlier one only if it was not there.
func (s *bareSession) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.depart(ctx, c)
}

func (s *bareSession) depart(ctx context.Context, c driver.Claim) error {
	key := s.e.keys.hold(c.Name)
	err := s.e.remove(ctx, s.cmp, key, s.value(&c))
	if errors.Is(err, driver.ErrGone) {
		err = s.departEarlier(ctx, key, &c)
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.ended(c)
	}
	return err
}

func (s *bareSession) departEarlier(ctx context.Context, key string, c *driver.Claim) error {
	r, err := s.e.c.Do(ctx, key, []string{"GET", key})
	if err != nil {
		return s.e.wrongKey(c.Name, err)
	}
	if x := holds(c.Name, r.Text, 0); r.Null || x.ID != c.ID || x.Try > c.Try {
		return driver.ErrGone
	}
	return s.e.remove(ctx, s.cmp, key, r.Text)
}

// Beat renews each hold if it is still there.
func (s *bareSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) (failed error) {
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.e.policy.again()
	calls := make([]Command, len(live))
	for i := range live {
		key, value := s.e.keys.hold(live[i].Name), s.value(&live[i])
		calls[i] = Command{key, s.cmp.renew(key, value, value, s.millis)}
	}
	for from := 0; from < len(live) && ctx.Err() == nil; from += beatChunk {
		to := min(from+beatChunk, len(live))
		answers := make([]Answer, to-from)
		s.e.c.Each(ctx, calls[from:to], answers)
		for i, a := range answers {
			st, err := s.beaten(&live[from+i], a)
			out[from+i] = st
			if err != nil {
				failed = err
			}
		}
	}
	return driver.Join(failed, ctx.Err())
}

func (s *bareSession) beaten(c *driver.Claim, a Answer) (driver.Standing, error) {
	switch {
	case a.Err != nil && code(a.Err) != "WRONGTYPE":
		return driver.Standing{}, fault(a.Err)
	case a.Err == nil && renewed(a.Reply):
		return driver.Standing{Held: true, Valid: s.ttl}, nil
	}
	s.ended(*c)
	return driver.Standing{Gone: true}, nil
}

// Close deletes what the session still holds.
func (s *bareSession) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	left := make([]driver.Claim, 0, len(s.claims))
	for _, c := range s.claims {
		left = append(left, c)
	}
	s.mu.Unlock()
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()
	var failed error
	for _, c := range left {
		if err := s.depart(ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
			failed = err
		}
		if ctx.Err() != nil {
			return driver.Join(failed, ctx.Err()) // the rest expires
		}
	}
	return failed
}
