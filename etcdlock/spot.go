package etcdlock

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A spot is one claim of a session and the key that is its place.
//
// It is remembered from before its first Enter is sent until it has certainly
// ended, so that a call that is repeated meets the same key.
type spot struct {
	claim driver.Claim
	line  span
	slot  slot
	key   string
	label string
	since time.Time // when it was made

	// guarded by session.mu
	rev        int64     // create revision; 0: no Enter was answered yet
	held       bool      // seen to be; it stays so until the key is gone
	way        []mark    // who was in the way when last seen
	unanswered time.Time // when the last Enter was sent that got no answer
	left       bool      // ended, but an unanswered Enter may yet bring it back
	vigil      vigil     // of the last Await, for the next
}

// same holds while the key is this claim's and none other's.
func (p *spot) same(rev int64) clientv3.Cmp {
	if rev != 0 {
		return created(p.key, rev)
	}
	return clientv3.Compare(clientv3.Value(p.key), "=", p.label)
}

// A slot is a number that a session uses under one name, for one claim at a time.
// Slots are used again, the lowest first: every key that ever was slows the ranges
// over it until the next compaction.
type slot struct {
	name   string
	number int
}

// A use is what is under way in a slot. A delete whose answer did not come may still
// arrive, and would end whatever claim had the key by then: such a slot is given up for
// good. So may a put, and where a later claim of the slot was evicted it would stand in
// its place: such a slot is used again, but its key is never deleted unseen.
type use struct {
	taken   bool // by a spot
	deletes int  // sent and not answered
	late    bool // an Enter had no answer, and may land as long as the lease lives
}

// giveLocked gives p a slot, and with it a key.
func (s *session) giveLocked(p *spot) {
	p.slot = slot{name: p.claim.Name}
	u := s.slots[p.slot]
	for u != nil && (u.taken || u.deletes > 0) {
		p.slot.number++
		u = s.slots[p.slot]
	}
	if u == nil {
		u = &use{}
		s.slots[p.slot] = u
	}
	u.taken = true
	p.key = p.line.claimed(p.claim, s.lease, p.slot.number)
}

// newSpot makes a place for c.
func (s *session) newSpot(c driver.Claim) *spot {
	p := &spot{claim: c, line: s.e.space.line(c.Name), label: labelOf(c, s.id), since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(p)
	s.spots[c.ID] = p
	return p
}

// find returns the spot of a claim, if it is that very try.
func (s *session) find(c driver.Claim) *spot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try && !p.left {
		return p
	}
	return nil
}

// forget ends p, whose key is not there. While an Enter of it may still be on its
// way, the slot stays taken and the claim known: the core leaves it again, and
// must find what landed.
func (s *session) forget(p *spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(p)
}

func (s *session) forgetLocked(p *spot) {
	if s.spots[p.claim.ID] != p {
		return // forgotten before, or followed by a later try
	}
	p.vigil.close()
	if !p.unanswered.IsZero() && time.Since(p.unanswered) < s.ttl {
		p.left, p.held, p.rev, p.way = true, false, 0, nil
		return
	}
	delete(s.spots, p.claim.ID)
	s.slots[p.slot].taken = false
	s.freeLocked(p.slot)
}

// freeLocked forgets a slot if nothing is under way in it.
func (s *session) freeLocked(at slot) {
	if u := s.slots[at]; *u == (use{}) {
		delete(s.slots, at)
	}
}

// deleting reports whether p's key may be deleted unseen: it has one, and no Enter
// in its slot is without an answer. From then on the slot is in use, until answered is
// called because the delete is known to be done.
func (s *session) deleting(p *spot) (answered func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A beat that found the key gone may have forgotten p, and its slot, since it was found.
	if p.rev == 0 || s.spots[p.claim.ID] != p || s.slots[p.slot].late {
		return nil, false
	}
	at := p.slot
	s.slots[at].deletes++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slots[at].deletes--
		s.freeLocked(at)
	}, true
}

// sweepLocked forgets what was kept for an Enter that can no longer arrive.
func (s *session) sweepLocked() {
	for _, p := range s.spots {
		if p.left && time.Since(p.unanswered) > 2*s.ttl {
			s.forgetLocked(p)
		}
	}
}

// unsure notes that an Enter sent at sent got no answer.
func (s *session) unsure(sent time.Time, spots ...*spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful = true
	for _, p := range spots {
		p.unanswered, p.left = sent, false
		if s.slots[p.slot] == nil { // left meanwhile
			s.slots[p.slot] = &use{}
		}
		s.slots[p.slot].late = true
	}
}

// boldly reports whether p may count on an empty line: nobody was met there, and
// nothing of p can be in it.
func (s *session) boldly(p *spot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.claim.Exclusive() && p.rev == 0 && p.unanswered.IsZero() && !s.met[p.claim.Name]
}

// maxMet is how many names are remembered as busy. To forget costs one call.
const maxMet = 10_000

// meet notes whether others were in the line when p entered it.
func (s *session) meet(p *spot, others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !others {
		delete(s.met, p.claim.Name)
		return
	}
	if len(s.met) >= maxMet {
		clear(s.met)
	}
	s.met[p.claim.Name] = true
}
