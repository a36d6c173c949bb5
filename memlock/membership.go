package memlock

import "time"

// A membership is what the engine knows of the quorum that it is a node of.
type membership struct {
	list  string // the quorum's nodes; "": none, until Rejoin
	epoch uint64
	votes bool
	life  uint64    // which memory this is: another after each Forget
	asked bool      // by an Enlist since it began, or forgot
	since time.Time // since when it has known that it does not vote
}

// An enlistment is a session's part in a quorum.
type enlistment struct {
	enlisted bool
	list     string
	life     uint64 // the memory that the last Enlist has seen
	epoch    uint64 // and the epoch, or that of the last Rejoin
}

// accepts reports whether a session may enter: one outside of quorums always may, one of
// another quorum than the engine's never.
func (m *membership) accepts(s enlistment) bool {
	return !s.enlisted || m.votes && m.list == s.list
}

// maxLead is how far ahead of the clock a proposed token may be.
const maxLead = time.Second

// mint returns the token after last, raised to what a quorum proposes.
func mint(last, propose uint64, now time.Time) uint64 {
	return max(last+1, min(propose, uint64(now.Add(maxLead).UnixMicro())))
}
