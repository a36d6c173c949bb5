package redislock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// session is one client's claims. Its life is theirs: each has an expiry of its
// own, set by Enter and moved by Beat.
type session struct {
	e      *Engine
	id     string
	ttl    time.Duration
	millis string        // ttl, in words
	tail   string        // what all holds of the session have in common
	done   chan struct{} // closed by Close

	mu     sync.Mutex       // guards what follows, and the spots
	last   manner           // of the claim that was entered last
	spots  map[string]*spot // claims that may be in a line: added before they are sent, removed when they have certainly ended
	closed bool
	stuck  bool    // the last Beat had no answer in time
	vote   *ballot // of a quorum's node; nil: it is none
}

// A manner is how a claim is asked for, whatever its name. The claims of a program
// mostly have one and the same.
type manner struct {
	need, limit   int
	queue         bool
	note, channel string
	tail          string // what the hold ends in
	wish          string // what enter must know of a claim that has to wait
}

// manner returns how c is asked for; was is one that may be the same.
func (s *session) manner(was manner, c *driver.Claim, channel string) manner {
	is := manner{need: c.Need, limit: c.Limit, queue: c.Queue, note: c.Note, channel: channel, tail: was.tail, wish: was.wish}
	if is != was {
		is.tail = " " + strconv.Itoa(c.Limit) + s.tail + c.Note
		is.wish = strconv.Itoa(c.Need) + " " + digit(c.Queue) + " " + channel
	}
	return is
}

// A spot is one claim that may be in a line.
type spot struct {
	claim driver.Claim
	place
	own   string            // see own
	heard uint64            // since which beginning of the subscription no word of it can have been missed; 0: none
	comes uint64            // the token that it will hold with, as the store has said; 0: it has not
	token uint64            // of a grant that was told and not yet taken
	taken bool              // the caller knows that it is held
	turn  chan struct{}     // made by Await, buffered by one: there is word of the claim; nil while nobody waits
	plan  driverkit.Recheck // when it looks for itself
}

func (p *spot) wakeLocked() {
	if p.turn == nil {
		return
	}
	select {
	case p.turn <- struct{}{}:
	default: // already told
	}
}

func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Lost() <-chan struct{} { return nil }

// begin says whether a call may go out.
func (s *session) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrGone
	}
	return nil
}

// entering remembers a claim before it is sent, so that Close ends it whatever
// becomes of the answer, and so that word of it has a place to go.
func (s *session) entering(ctx context.Context, c *driver.Claim, channel string) (p *spot, tail, wish string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", "", err
	}
	p = &spot{claim: *c, place: s.e.keys.place(c.Name), own: own(c), heard: s.e.hears(channel)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, "", "", driver.ErrGone
	}
	s.last = s.manner(s.last, c, channel)
	if have := s.spots[c.ID]; have == nil || have.claim.Try < c.Try { // a late one does not hide its successor
		s.spots[c.ID] = p
	}
	return p, s.last.tail, s.last.wish, nil
}

// of returns the keys of a claim's name and how scripts know the claim.
func (s *session) of(c *driver.Claim) (place, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try && p.claim.Name == c.Name {
		return p.place, p.own
	}
	return s.e.keys.place(c.Name), own(c)
}

// ended forgets a claim that is certainly not in a line, unless a later try of
// it was sent meanwhile.
func (s *session) ended(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.spots[c.ID]; have != nil && have.claim.Try <= c.Try {
		delete(s.spots, c.ID)
	}
}

// own is how the hold of a claim begins, and how scripts know the claim.
func own(c *driver.Claim) string { return "p1 " + c.ID + " " + strconv.Itoa(c.Try) + " " }

// Enter asks for a claim in one script.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	e := s.e
	if err := e.policy.fine(ctx); err != nil {
		return driver.Standing{}, err
	}
	channel := e.keys.channel(e.id, c.Name)
	p, tail, wish, err := s.entering(ctx, &c, channel)
	if err != nil {
		return driver.Standing{}, err
	}
	sc := enterScript
	if !c.Exclusive() {
		sc = shareScript
	}
	fence := e.keys.fence(c.Name)
	var r Reply
	var epoch uint64
	if v := s.ballot(); v != nil {
		r, epoch, err = s.ask(ctx, &c, v, []string{p.hold, p.line, fence, p.own, tail, s.millis, wish})
	} else {
		call := sc.call(5, []string{p.hold, p.line, fence, p.waits, p.lives, p.own, tail, s.millis, wish})
		if c.Propose != 0 {
			call = append(call, strconv.FormatUint(c.Propose, 10))
		}
		r, err = s.grant(ctx, &c, sc, p.hold, call, e.o.timeout)
	}
	if err != nil {
		if word := code(err); word != "" && word != "ERR" || errors.Is(err, driver.ErrNoVote) { // refused untouched
			s.ended(c)
		}
		return driver.Standing{}, e.faultAt(c.Name, err)
	}
	st, err := s.standing(&c, r)
	st.Epoch = epoch
	switch {
	case st.Held || st.Valid > 0:
		s.expects(&c, r)
		if !s.entered(&c, st.Held) { // Close may have looked before it was there
			_ = s.depart(ctx, c) // what stays expires
			return driver.Standing{}, driver.ErrGone
		}
	case !st.Gone:
		s.ended(c)
	}
	return st, err
}

// entered notes whether a claim is held, unless the session was closed meanwhile.
func (s *session) entered(c *driver.Claim, held bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		p.taken = p.taken || held
	}
	return !s.closed
}

// Leave gives back a claim in one script, which lets in and tells the next.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.depart(ctx, c)
}

func (s *session) depart(ctx context.Context, c driver.Claim) error {
	at, own := s.of(&c)
	r, err := s.e.send(ctx, leaveScript, at.hold, leaveScript.call(4, at.keys(own)))
	if moving(err) {
		if r, again := s.e.run(ctx, releaseScript, 1, []string{at.hold, own}); again == nil && r.Int == 1 {
			s.left(c)
			return nil
		}
	}
	if err != nil {
		return s.e.faultAt(c.Name, err)
	}
	s.left(c)
	if r.Int == 0 {
		return driver.ErrGone
	}
	return nil
}

// left forgets a claim that is not in a line any more, and makes its Await look.
func (s *session) left(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.spots[c.ID]; have != nil && have.claim.Try <= c.Try {
		have.heard = 0
		have.wakeLocked()
		delete(s.spots, c.ID)
	}
}
