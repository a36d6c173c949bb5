package etcdlock

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
	taken     bool // by a claim
	deletes   int  // unconditional deletes without an answer
	lateEnter bool // an Enter had no answer, and may arrive as long as the lease lives
}

// assignSlotLocked gives p a slot, and with it a key.
func (s *session) assignSlotLocked(p *claimState) {
	p.slot = slot{name: p.claim.Name}
	state := s.slots[p.slot]
	for state != nil && (state.taken || state.deletes > 0) {
		p.slot.number++
		state = s.slots[p.slot]
	}
	if state == nil {
		state = &slotState{}
		s.slots[p.slot] = state
	}
	state.taken = true
	p.key = p.line.key(p.claim, s.lease.ID, p.slot.number)
}

// changeSlot gives p another key, because a late Enter of a claim that was left has put
// a key where p was to be put. The old slot is not used again.
func (s *session) changeSlot(p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assignSlotLocked(p)
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
	if p.revision == 0 || s.claims[p.claim.ID] != p || s.slots[p.slot].lateEnter {
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
