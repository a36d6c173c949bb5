package quorum

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// soon is how long a majority has the word alone. The rest are asked then, or when
// one of the first fails, or when all of those have answered and left it open. So
// a claim that lasts is at every node, one that is given back at once has cost no
// more of them than it needs, and one that is refused has not been granted where
// the holder is about to ask.
const soon = time.Millisecond

// A poll asks the nodes about one claim.
type poll struct {
	s       *session
	w       *wish
	claim   driver.Claim
	ballots chan vote // every node that is asked sends once, read or not
	first   []int
	rest    []int // not asked yet; guarded by s.mu
	timer   *time.Timer
}

// poll asks the nodes and counts until the claim has won or lost.
func (s *session) poll(ctx context.Context, w *wish) (*tally, <-chan vote, error) {
	p := &poll{s: s, w: w, claim: w.node(), ballots: make(chan vote, len(s.seats))}
	p.claim.Propose = s.e.lead.propose()
	if !p.begin() {
		return nil, nil, driver.ErrGone
	}
	t := &tally{nodes: len(s.seats), majority: s.e.majority, votes: make([]vote, 0, len(s.seats))}
	for !t.won() && !t.refused() && len(t.votes) < t.nodes {
		select {
		case v := <-p.ballots:
			t.votes = append(t.votes, v)
			if v.err != nil || len(t.votes) == len(p.first) && !t.won() && !t.refused() {
				p.askRest()
			}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	for _, v := range t.votes {
		s.e.lead.learn(v.st.Token)
	}
	return t, p.ballots, nil
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
	if len(p.rest) > 0 {
		p.timer = time.AfterFunc(soon, p.overdue)
		p.w.later = p.timer
	}
	return true
}

func (p *poll) askLocked(nodes []int) {
	g := p.s.group(len(nodes))
	for _, i := range nodes {
		p.s.enterAtLocked(g, i, p.w, p.claim, p.ballots)
	}
}

// overdue takes note of who has not answered by now, and asks the rest.
func (p *poll) overdue() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.w.over {
		return
	}
	for _, i := range p.first {
		select {
		case <-p.w.last[i]:
		default:
			p.s.seats[i].late.Store(true)
		}
	}
	p.askRestLocked()
}

func (p *poll) askRest() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.askRestLocked()
}

// askRestLocked asks those who were not asked first, once, unless nobody wants
// to know any more.
func (p *poll) askRestLocked() {
	rest := p.rest
	if len(rest) == 0 || p.s.closed || p.w.over {
		return
	}
	p.rest = nil
	p.timer.Stop()
	p.askLocked(rest)
}

// prefer divides the nodes into a majority to ask first, which is the same for all
// clients of a name while its nodes answer at once, and the rest. Where no
// majority does, all are asked first.
func (s *session) prefer(name string) (first, rest []int) {
	n := len(s.seats)
	at := begin(name, n)
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

// begin is where the nodes of a name begin, of n in a circle.
func begin(name string, n int) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return int(h % uint32(n))
}
