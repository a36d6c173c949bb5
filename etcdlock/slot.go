package etcdlock

import "time"

// A slot is a number that a session uses under one name, for one claim at a time. Slots
// are used again, the lowest first: every key that ever existed slows the ranges over
// it until the next compaction.
type slot struct {
	name   string
	number int
}

// A slotState is what is in flight in a slot.
//
// A delete without an answer may still arrive, and would end whatever claim had the key
// by then: its slot is never used again. A put without an answer may still arrive too,
// and if a later claim of the slot was evicted, the late key would be in its place: the
// slot is used again, but its key is never deleted unconditionally.
type slotState struct {
	taken      bool // by a claim
	orphaned   bool // it had a key of no claim; it is used again after a beat has looked for orphans
	deletes    int  // unconditional deletes without an answer
	lateEnters int  // Enters without an answer, which may arrive as long as the lease lives
}

// free reports whether a claim may use the slot.
func (s *slotState) free() bool { return s == nil || !s.taken && !s.orphaned && s.deletes == 0 }

// assignSlotLocked gives p a slot, and with it a key.
func (s *session) assignSlotLocked(p *claimState) {
	p.slot = slot{name: p.claim.Name}
	state := s.slots[p.slot]
	for ; !state.free(); state = s.slots[p.slot] {
		p.slot.number++
	}
	s.slotLocked(p.slot).taken = true
	p.key = p.line.key(p.claim, s.lease.ID, p.slot.number)
}

// slotLocked returns the state of a slot.
func (s *session) slotLocked(at slot) *slotState {
	if s.slots[at] == nil {
		s.slots[at] = &slotState{}
	}
	return s.slots[at]
}

// changeSlot gives p another key, because a late Enter of a claim that was left has put a
// key at the old one.
func (s *session) changeSlot(p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.slots[p.slot]
	s.assignSlotLocked(p)
	if s.claims[p.claim.ID] == p { // else a beat has forgotten p, and the old slot may be another claim's
		old.taken, old.orphaned, s.orphanSeen = false, true, true
	}
}

// orphanedSlotsLocked returns the slots that are used again when the orphans that are there
// now have been deleted.
func (s *session) orphanedSlotsLocked() (slots []slot) {
	for at, state := range s.slots {
		if state.orphaned {
			slots = append(slots, at)
		}
	}
	return slots
}

// freeSlotLocked drops the state of a slot in which nothing is in flight.
func (s *session) freeSlotLocked(at slot) {
	if state := s.slots[at]; *state == (slotState{}) {
		delete(s.slots, at)
	}
}

// startDelete reports whether p's key may be deleted unconditionally: the key was put,
// and no Enter in its slot is without an answer. The slot is then in use until the
// caller calls answered, because the delete is known to be done.
func (s *session) startDelete(p *claimState) (answered func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A beat that found the key gone may have forgotten p, and its slot, in the meantime.
	if p.revision == 0 || s.claims[p.claim.ID] != p || s.lateAnywhere || s.slots[p.slot].lateEnters > 0 {
		return nil, false
	}
	at := p.slot
	s.slots[at].deletes++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slots[at].deletes--
		s.freeSlotLocked(at)
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
	s.lateEnters++
	switch {
	case s.lateAnywhere:
	case s.lateEnters > maxLateSlots:
		s.lateAnywhere = true
		for at, state := range s.slots {
			state.lateEnters = 0
			s.freeSlotLocked(at)
		}
	default:
		s.slotLocked(p.slot).lateEnters++ // the slot may have no state: p was left during the call
	}
}

// enterArrived records that p's key was found, created at revision. If no Enter was
// answered with this revision, one of those without an answer has put the key, and cannot
// arrive again.
func (s *session) enterArrived(p *claimState, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.slots[p.slot]; p.revision != revision && state != nil && state.lateEnters > 0 {
		state.lateEnters--
		s.lateEnters--
	}
	p.revision, p.left = revision, false
}
