package etcdlock

import "time"

// A slot is a number that a session uses under one name, for one claim at a time. Slots
// are used again, the lowest first: every key that ever existed slows the ranges over
// it until the next compaction.
//
// A slot is in use while it has a claim. It stays in use after a delete without an answer,
// which may still arrive, and would end whatever claim had the key by then; and after a key
// of no claim was met there, until a beat has looked for orphans. A put without an answer
// may still arrive too, and if a later claim of the slot was evicted, the late key would be
// in its place: the slot is used again, but its key is never deleted unconditionally.
type slot struct {
	name   string
	number int
}

// assignSlotLocked gives p a slot, and with it a key.
func (s *session) assignSlotLocked(p *claimState) {
	p.slot = slot{name: p.claim.Name}
	for s.slots[p.slot] > 0 {
		p.slot.number++
	}
	s.slots[p.slot]++
	p.key = p.line.key(p.claim, s.lease.ID, p.slot.number)
}

// decrement counts one less in a slot, and forgets the slot at 0.
func decrement(counts map[slot]int, at slot) {
	if counts[at]--; counts[at] == 0 {
		delete(counts, at)
	}
}

// changeSlot gives p another key, because a late Enter of a claim that was left has put a
// key at the old one.
func (s *session) changeSlot(p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := p.slot
	s.assignSlotLocked(p)
	if s.claims[p.claim.ID] == p { // else a beat has forgotten p, and the old slot may be another claim's
		s.orphaned, s.orphanSeen = append(s.orphaned, old), true
	}
}

// startDelete reports whether p's key may be deleted unconditionally: the key was put,
// and no Enter in its slot is without an answer. The slot is then in use until the
// caller calls answered, because the delete is known to be done.
func (s *session) startDelete(p *claimState) (answered func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A beat that found the key gone may have forgotten p, and its slot, in the meantime.
	if p.revision == 0 || s.claims[p.claim.ID] != p || s.late == nil || s.late[p.slot] > 0 {
		return nil, false
	}
	at := p.slot
	s.slots[at]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		decrement(s.slots, at)
	}, true
}

// maxLateSlots is how many slots with a late Enter are remembered. Beyond it the session
// deletes no key unconditionally any more.
const maxLateSlots = 10_000

// enterUnanswered records that an Enter of p, sent at sent, had no answer.
func (s *session) enterUnanswered(sent time.Time, p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.unanswered, p.left = sent, false
	if len(s.late) == maxLateSlots {
		s.late = nil
	}
	if s.late != nil {
		s.late[p.slot]++
	}
}

// enterArrived records that p's key was found, created at revision. If no Enter was
// answered with this revision, one of those without an answer has put the key, and cannot
// arrive again.
func (s *session) enterArrived(p *claimState, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.revision != revision && s.late[p.slot] > 0 {
		decrement(s.late, p.slot)
	}
	p.revision, p.left = revision, false
}
