package redlockdoctor

import (
	"fmt"
	"math"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/quorum"
)

// A state is how a server takes part in the quorum.
type state int

const (
	votes       state = iota
	fresh             // all servers are new, and vote as soon as a client asks
	young             // all servers are new, and this one has not run for long enough
	ready             // it may vote again as soon as a client asks
	silent            // it does not vote for some time
	restarted         // it does not vote, and no client has noticed yet
	empty             // it has lost its data, and no client has noticed yet
	otherQuorum       // it serves other clients
	unreadable
)

// state returns the state of a server, and how long it will not vote.
func (s *set) state(n node) (state, time.Duration) {
	silence := quorum.Silence(s.maxTTL)
	switch {
	case n.Membership != nil:
		return unreadable, 0
	case len(n.Member) == 0 && s.allNew():
		// The uptime is in whole seconds, which the engine compares too.
		if left := silence - n.Uptime; left > 0 {
			return young, left
		}
		return fresh, 0
	case len(n.Member) == 0:
		return empty, silence
	case n.Member["list"] != s.id:
		return otherQuorum, 0
	case n.Restarted:
		return restarted, silence
	case n.Member["votes"] == "1":
		return votes, 0
	case n.Since >= silence:
		return ready, 0
	}
	return silent, silence - n.Since
}

// allNew reports whether no server that answers remembers a quorum.
func (s *set) allNew() bool {
	for _, n := range s.nodes {
		if n.err == nil && len(n.Member) > 0 {
			return false
		}
	}
	return true
}

// vote says whether a server votes, and otherwise when it will.
func (s *set) vote(n node) doctor.Finding {
	const check, one = "vote", "Without its vote, fewer of the other servers may be lost."
	st, left := s.state(n)
	// A client that runs lets servers vote when they may; a few seconds more are for that.
	mend := s.command + fmt.Sprint(int(math.Ceil(left.Seconds()))+5)
	switch in := doctor.Short(left); st {
	case votes:
		return doctor.Good(check, "votes")
	case fresh:
		return doctor.Good(check, "new: votes as soon as a client asks")
	case young:
		return doctor.Warn(check, fmt.Sprintf("was started %v ago, and votes no earlier than in %v", n.Uptime, in), "A server that was just started may have lost its locks.", mend)
	case ready:
		return doctor.Warn(check, "does not vote, and may as soon as a client asks", one, mend)
	case silent:
		return doctor.Warn(check, fmt.Sprintf("was restarted or has lost its data, and votes no earlier than in %v", in), one, mend)
	case restarted:
		return doctor.Warn(check, fmt.Sprintf("was restarted, and votes %v after the next client asks", in), one, mend)
	case empty:
		return doctor.Warn(check, fmt.Sprintf("has lost its data or is new, and votes %v after the next client asks", in), one, mend)
	case otherQuorum:
		return doctor.Break(check, "serves a quorum of other hosts, or with another max-ttl", "It refuses clients of this URL: hosts and max-ttl must be the same in every client.",
			fmt.Sprintf(`redis-cli DEL "%s\x01q" # on every server, once all clients have stopped`, n.Prefix))
	}
	return doctor.Warn(check, fmt.Sprintf("cannot read whether it votes: %v", n.Membership), "Locks need the same right.", "ACL SETUSER app +hgetall")
}

// quorum says whether enough servers vote.
func (s *set) quorum() doctor.Finding {
	const check = "quorum"
	n, first := 0, time.Duration(0)
	for _, node := range s.nodes {
		if node.err != nil {
			continue
		}
		st, left := s.state(node)
		if st == votes || st == fresh {
			n++
		}
		first = max(first, left)
	}
	found := fmt.Sprintf("%d of %d servers vote, %d are needed", n, len(s.nodes), s.majority())
	mend := s.command + fmt.Sprint(int(math.Ceil(first.Seconds()))+5)
	switch {
	case n < s.majority():
		return doctor.Break(check, found, "No lock can be taken until more servers vote.", mend)
	case s.allNew() && s.answering() < len(s.nodes):
		return doctor.Break(check, found+"; a new quorum needs all", "The first lock can be taken once all servers answer.", mend)
	}
	return doctor.Good(check, found)
}
