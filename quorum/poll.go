package quorum

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// soon is how long a majority has the word alone. The rest are asked then, or when
// all of the first have answered and left it open. So a claim that lasts is at
// every node, one that is given back at once has cost no more of them than it
// needs, and one that is refused has not been granted where the holder is about to
// ask.
const soon = time.Millisecond

// A poll asks the nodes about one claim.
type poll struct {
	tally
	s       *session
	w       *wish
	claim   driver.Claim
	ballots chan vote // every node sends once, read or not
	first   []int
	rest    []int       // not asked yet; guarded by s.mu while a timer may ask them
	asked   int         // how many were
	timer   *time.Timer // asks the rest of a claim that has won
}

// poll asks the nodes and counts until the claim has won or lost.
func (s *session) poll(ctx context.Context, w *wish) (*poll, error) {
	n := len(s.seats)
	p := &poll{s: s, w: w, claim: w.node(), ballots: make(chan vote, n)}
	p.tally = tally{nodes: n, majority: s.e.majority, votes: make([]vote, 0, n)}
	p.claim.Propose = s.e.lead.propose()
	if !p.begin() {
		return nil, driver.ErrGone
	}
	if err := p.count(ctx); err != nil {
		return nil, err
	}
	for _, v := range p.votes {
		s.e.lead.learn(v.st.Token)
	}
	if p.won() {
		p.askRestLater()
	}
	return p, nil
}

// begin asks the first, unless the session is closed.
func (p *poll) begin() bool {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	p.first, p.rest = s.prefer(p.claim.Name)
	p.askLocked(p.first)
	return true
}

// count takes votes until they decide, and asks the rest when the first have not.
func (p *poll) count(ctx context.Context) error {
	timer, first := time.NewTimer(soon), true
	defer timer.Stop()
	for !p.decided() {
		select {
		case v := <-p.ballots:
			p.votes = append(p.votes, v)
			if len(p.votes) == len(p.first) && !p.decided() {
				p.askRest()
			}
			p.givenUp = p.vain()
		case <-timer.C:
			switch {
			case first:
				p.overdue()
			case p.stuck():
				p.givenUp = true
			default:
				p.askRest() // those who were left to somebody else: he has had the time
			}
			first = false
			timer.Reset(tick(p.s.o.TTL))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *poll) decided() bool { return p.won() || p.refused() || len(p.votes) == p.nodes }

// overdue takes note of who has not answered by now, and asks the rest, unless
// somebody is in the way and they would not suffice: he is about to ask them too,
// and should get them.
func (p *poll) overdue() {
	for _, i := range p.first {
		if !p.heard(i) {
			p.s.seats[i].late.Store(true)
		}
	}
	if p.refusals() == 0 || p.granting()+len(p.rest) >= p.majority {
		p.askRest()
	}
}

// stuck reports whether somebody is in the way and most have answered. Two rivals
// that each have what the other needs would otherwise wait for a node that does
// not answer until their calls to it have failed.
func (p *poll) stuck() bool { return p.refusals() > 0 && 2*p.answered() > p.asked }

// vain reports whether somebody is in the way and none has yet to answer but nodes
// that have been silent for a while: they are not waited for once more.
func (p *poll) vain() bool {
	if p.refusals() == 0 || p.answered() < p.majority || len(p.rest) > 0 || len(p.votes) == p.nodes {
		return false
	}
	for i, k := range p.s.seats {
		if !p.heard(i) && !k.silent() {
			return false
		}
	}
	return true
}

// askRest asks those who were not asked first, once.
func (p *poll) askRest() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.askRestLocked()
}

// askRestLocked does not ask them for a claim that was left: whoever waits for
// their votes is told that there will be none.
func (p *poll) askRestLocked() {
	rest := p.rest
	p.rest = nil
	if p.w.later == p {
		p.w.later = nil
	}
	switch {
	case len(rest) == 0:
	case p.s.closed, p.w.over:
		for _, i := range rest {
			p.ballots <- vote{node: i, err: driver.ErrGone}
		}
	default:
		p.askLocked(rest)
	}
}

// askRestLater has the rest asked soon, unless the claim is left by then.
func (p *poll) askRestLater() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if len(p.rest) == 0 {
		return
	}
	if p.w.over {
		p.askRestLocked()
		return
	}
	p.w.later, p.timer = p, time.AfterFunc(soon, p.askRest) // it finds out by itself that it comes too late
}

func (p *poll) askLocked(nodes []int) {
	g := p.s.group(len(nodes))
	for _, i := range nodes {
		p.s.enterAtLocked(g, i, p.w, p.claim, p.ballots)
	}
	p.asked += len(nodes)
}

// prefer divides the nodes into a majority to ask first, which is the same for all
// clients of a name while its nodes answer at once, and the rest. Where no
// majority does, all are asked first.
func (s *session) prefer(name string) (first, rest []int) {
	n := len(s.seats)
	at := seatOf(name, n)
	order := make([]int, 0, n)
	var late []int
	for k := range n {
		if i := s.e.order[(at+k)%n]; s.seats[i].late.Load() {
			late = append(late, i)
		} else {
			order = append(order, i)
		}
	}
	prompt := len(order)
	order = append(order, late...)
	if prompt < s.e.majority {
		return order, nil
	}
	return order[:s.e.majority], order[s.e.majority:]
}

// seatOf is where the nodes of a name begin, of n in a circle.
func seatOf(name string, n int) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return int(h % uint32(n))
}
