package redisline

import (
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A claimState is what a session knows of one claim that may be in a line.
type claimState struct {
	keys       keyspace.Keys
	prefix     string    // of its hold, by which scripts identify it
	arrival    uint64    // the number of its arrival in the line, as the server reported; 0: not reported
	token      uint64    // of a grant that was published and that Await has not returned yet
	returned   bool      // the caller knows that it is held
	unanswered time.Time // when the last Enter without an answer failed; zero: there was none
}

type claimed = driverkit.Claimed[claimState]

// An argCache has the arguments of enter that do not depend on the name. Most claims of
// a program have the same.
type argCache struct {
	need, limit   int
	queue         bool
	note, channel string

	suffix  string // of the hold
	waiting string // what enter needs for a claim that has to wait
}

// arguments returns the arguments for c, made anew if they differ from the last ones.
func (s *session) arguments(c *driver.Claim, channel string) argCache {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// keysOf returns the keys of a claim's name and the prefix of its hold.
func (s *session) keysOf(c *driver.Claim) (keys keyspace.Keys, prefix string) {
	known := s.claims.With(c.ID, c.Try, func(p *claimed) { keys, prefix = p.State.keys, p.State.prefix })
	if known {
		return keys, prefix
	}
	return s.store.Keys.Of(c.Name), keyspace.HoldPrefix(c)
}

// unanswered notes that an Enter had no answer: it may be on its way.
func (s *session) unanswered(c *driver.Claim) {
	s.claims.With(c.ID, c.Try, func(p *claimed) { p.State.unanswered = time.Now() })
}

// absent ends a claim that a Leave did not find, unless its Enter may still be on its way
// on another connection: then Close leaves it once more. The core repeats such a Leave for
// a TTL, so the claim is ended here in time.
func (s *session) absent(c driver.Claim) {
	late := false
	s.claims.With(c.ID, c.Try, func(p *claimed) { late = !p.State.unanswered.IsZero() && time.Since(p.State.unanswered) < s.ttl/2 })
	if !late {
		s.claims.End(c)
	}
}

// answered notes what the server has answered for a claim that is in the line. A claim
// that held before may have lost its key and wait now.
func (s *session) answered(c *driver.Claim, r redisclient.Reply, held bool) {
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		p.State.arrival = arrival(r)
		p.State.returned = held
	})
}

// granted delivers the grant of a claim; token 0 says that the claim must be read.
func (s *session) granted(id string, try int, token uint64) {
	s.claims.With(id, try, func(p *claimed) {
		if p.State.returned {
			return
		}
		p.State.token = token
		if token == 0 {
			p.Waiter.Wake()
		} else {
			p.Waiter.Notify()
		}
	})
}

// takeGrant returns the token of a grant that was published for c, once, and makes every
// later Await look. A grant from before the claim's arrival is dropped: the claim may have
// been let in before, while the answer to its Enter was lost, have ended, and been entered
// again. Older versions of pawl let a claim in with the number of its arrival as its token.
func (s *session) takeGrant(c *driver.Claim) (token uint64) {
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		if p.State.token == 0 {
			return
		}
		if p.State.arrival != 0 && p.State.token >= p.State.arrival {
			token, p.State.returned = p.State.token, true
		}
		p.State.token = 0
		p.Waiter.Wake()
	})
	return token
}

// notReturned makes the next Await look: the caller was not told of a grant after all.
func (s *session) notReturned(c *driver.Claim) {
	s.claims.With(c.ID, c.Try, func(p *claimed) {
		p.State.returned = false
		p.Waiter.Wake()
	})
}
