package redisline

import (
	"context"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A claimState is what a session knows of one claim that may be in a line.
type claimState struct {
	claim  driver.Claim
	keys   keyspace.Keys
	prefix string // of its hold, by which scripts identify it

	generation uint64            // of the subscription, in which no message for the claim can have been missed; 0: none
	expected   uint64            // the token that it will hold with, as the server reported; 0: not reported
	token      uint64            // of a grant that was published and that Await has not returned yet
	returned   bool              // the caller knows that it is held
	wake       chan struct{}     // buffered by one; nil until Await makes it
	recheck    driverkit.Recheck // when it looks without a message
}

func (p *claimState) wakeLocked() {
	if p.wake == nil {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // a notification is pending
	}
}

// An argCache has the arguments of enter that do not depend on the name. Most claims of
// a program have the same.
type argCache struct {
	need, limit   int
	queue         bool
	note, channel string

	suffix  string // of the hold
	waiting string // what enter needs for a claim that has to wait
}

// argsLocked returns the arguments for c, made anew if they differ from the last ones.
func (s *session) argsLocked(c *driver.Claim, channel string) argCache {
	last := &s.args
	if last.need != c.Need || last.limit != c.Limit || last.queue != c.Queue || last.note != c.Note || last.channel != channel {
		*last = argCache{
			need: c.Need, limit: c.Limit, queue: c.Queue, note: c.Note, channel: channel,
			suffix:  keyspace.HoldSuffix(c.Limit, s.part, c.Note),
			waiting: strconv.Itoa(c.Need) + " " + flag(c.Queue) + " " + channel,
		}
	}
	return *last
}

// begin returns why no call may be sent.
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

// entering adds a claim before it is sent, so that Close ends it whatever becomes of
// the answer, and so that a grant of it can be delivered. before is the state that the
// session had of this claim ID.
func (s *session) entering(ctx context.Context, c *driver.Claim, channel string) (state, before *claimState, args argCache, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, argCache{}, err
	}
	state = &claimState{
		claim: *c, keys: s.store.Keys.Of(c.Name), prefix: keyspace.HoldPrefix(c),
		generation: s.store.subscriptions.Generation(channel),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, argCache{}, driver.ErrGone
	}
	before = s.claims[c.ID]
	if before == nil || before.claim.Try < c.Try { // a late call does not hide a higher Try
		s.claims[c.ID] = state
	}
	return state, before, s.argsLocked(c, channel), nil
}

// refused undoes entering for a call that the server refused. A claim that an earlier
// call may have put into the line stays.
func (s *session) refused(state, before *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.claims[state.claim.ID] != state:
	case before != nil:
		s.claims[state.claim.ID] = before
	default:
		delete(s.claims, state.claim.ID)
	}
}

// entered notes whether a claim is held, and reports whether the session is still open.
func (s *session) entered(c *driver.Claim, held bool) (open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		p.returned = p.returned || held
	}
	return !s.closed
}

func (s *session) stateLocked(c *driver.Claim) *claimState {
	if p := s.claims[c.ID]; p != nil && p.claim.Try == c.Try {
		return p
	}
	return nil
}

// keysOf returns the keys of a claim's name and the prefix of its hold.
func (s *session) keysOf(c *driver.Claim) (keyspace.Keys, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil && p.claim.Name == c.Name {
		return p.keys, p.prefix
	}
	return s.store.Keys.Of(c.Name), keyspace.HoldPrefix(c)
}

// forget removes a claim that is certainly not in a line, unless a higher Try of it was
// sent meanwhile, and makes its Await look.
func (s *session) forget(c driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.claims[c.ID]; p != nil && p.claim.Try <= c.Try {
		p.generation = 0
		p.wakeLocked()
		delete(s.claims, c.ID)
	}
}

// forgetAll removes all claims without ending them.
func (s *session) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.claims)
}

// close ends the session for new calls and returns the claims that may be in a line.
func (s *session) close() []driver.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	left := make([]driver.Claim, 0, len(s.claims))
	for _, p := range s.claims {
		left = append(left, p.claim)
	}
	return left
}

// expect notes the token with which a waiting claim will hold.
func (s *session) expect(c *driver.Claim, r redisclient.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		p.expected = expectedToken(r)
	}
}

// granted delivers the grant of a claim; token 0 says that the claim must be read.
func (s *session) granted(id string, try int, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.claims[id]
	if p == nil || p.claim.Try != try || p.returned {
		return
	}
	p.token = token
	if token == 0 {
		p.generation = 0
	}
	p.wakeLocked()
}

// takeGrant returns the token of a grant that was published for c, once. A grant with
// another token than the expected one makes the claim look: the claim may have been let
// in before, while the answer to its Enter was lost, have ended, and been entered again.
func (s *session) takeGrant(c *driver.Claim) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.stateLocked(c)
	if p == nil || p.token == 0 {
		return 0
	}
	token := p.token
	p.token, p.generation = 0, 0
	if token != p.expected {
		return 0
	}
	p.returned = true
	return token
}

// notReturned makes the next Await look: the caller was not told of a grant after all.
func (s *session) notReturned(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		p.returned, p.generation = false, 0
	}
}

// waiting returns the channel that wakes c's Await; nil if c is not known.
func (s *session) waiting(c *driver.Claim) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.stateLocked(c)
	if p == nil {
		return nil
	}
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	return p.wake
}

// readIn reports whether c was read in this generation of its subscription.
func (s *session) readIn(c *driver.Claim, generation uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.stateLocked(c)
	return p != nil && p.generation == generation
}

func (s *session) setGeneration(c *driver.Claim, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		p.generation = generation
	}
}

// looked plans the next look after c was read as st.
func (s *session) looked(c *driver.Claim, st driver.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		p.recheck = driverkit.RecheckAfter(st)
	}
}

// beaten plans the next look after a beat, which was sent at sent, has reported what it
// depends on: see still in line.lua.
func (s *session) beaten(c *driver.Claim, sent time.Time, reported []redisclient.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil && p.recheck.Beaten(sent, millis(reported[1].Int), reported[2].Text, s.ttl) {
		p.wakeLocked()
	}
}

// pause returns the time for which c need not look.
func (s *session) pause(c *driver.Claim) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.stateLocked(c); p != nil {
		return p.recheck.Left()
	}
	return 0
}
