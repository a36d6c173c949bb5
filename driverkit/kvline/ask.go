package kvline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

const (
	// askLimit is after which silence who asks enters by itself.
	askLimit = 2 * time.Second

	// askTries is after how many tries another is asked also in a short line. Who leaves it
	// and comes at once knows it, and is always first.
	askTries = 2

	// notNow is instead of the number of tries after one was asked in vain.
	notNow = -1

	// askTogether is for how long claims for a line that stands are collected.
	askTogether = 50 * time.Millisecond
)

// errAsk is what a change returns for a claim that another engine is asked to enter.
var errAsk = errors.New("another engine is asked")

// toAsk returns the engine that is asked to enter a further claim into a line, which was
// tried before so many times; "" if none is.
func (e *Engine) toAsk(l line, tries int, now time.Time) string {
	ours := len(l) > 0 && l[len(l)-1].Engine == e.address // who came last knows the line
	if tries == notNow || (!l.long() || ours) && tries < askTries {
		return ""
	}
	return e.nextWriter(l, now)
}

// nextWriter returns the engine that most probably writes the line next, but for this one and
// those that cannot be asked.
func (e *Engine) nextWriter(l line, now time.Time) string {
	if l.long() && !l.stands(now) { // whose turn comes after the question
		return e.helper(l, l.held()+1)
	}
	return e.helper(l, 0)
}

// long reports whether those who come to the line, or leave it, ask another engine.
func (l line) long() bool { return len(l)-l.held() > near }

// stands reports whether the holder has the name for longer than a turn takes in a line that
// many pass through.
func (l line) stands(now time.Time) bool {
	return now.Sub(time.Unix(0, l[0].Since)) > askLimit
}

// A question asks another engine to enter a claim.
type question struct {
	to     string        // which engine
	claim  claim         // as it is to be entered
	line   line          // that it is to be entered into, as it was
	limit  time.Duration // of silence
	answer chan place    // the last one is where it was entered
}

// ask asks another engine to enter c, as it is stored.
func (s *session) ask(c driver.Claim, stored claim, to string, l line, now time.Time) *question {
	n := s.request(c.Name, l, now)
	n.Enter = line{stored}
	q := &question{to: to, claim: stored, line: l, limit: n.Limit, answer: make(chan place, 2)}
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.asked = q })
	s.e.send(to, n)
	return q
}

// request returns a notice that asks for something.
func (s *session) request(name string, l line, now time.Time) *notice {
	n := &notice{Name: name, Limit: min(askLimit, s.ttl/4)}
	if n.After = n.Limit / 2; l.stands(now) {
		n.After = askTogether
	}
	return n
}

// entered waits for the answer to a question, and returns where c was entered. Where ctx ends,
// a later call goes on waiting.
func (s *session) entered(ctx context.Context, c driver.Claim, q *question) (at place, entered bool) {
	timer := time.NewTimer(q.limit)
	defer timer.Stop()
	for {
		select {
		case at := <-q.answer:
			if at.Token == 0 { // not yet
				timer.Reset(q.limit)
				continue
			}
			s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { p.State.asked = nil })
			return at, true
		case <-timer.C:
			s.withdraw(c)
			return at, false
		case <-ctx.Done():
			return at, false
		case <-s.claims.Ended():
			return at, false
		}
	}
}

// withdraw says that c is not to be entered any more. It may be all the same.
func (s *session) withdraw(c driver.Claim) {
	var q *question
	s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) { q, p.State.asked = p.State.asked, nil })
	if q != nil {
		s.withdrawn.add(c)
		s.e.send(q.to, &notice{Name: c.Name, Withdrawn: line{q.claim}})
	}
}
