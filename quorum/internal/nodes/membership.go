package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A membership is what the nodes report of themselves.
type membership struct {
	set     *Set
	reports []driver.Membership
	errs    []error // by node; reports[i] holds only where errs[i] is nil
}

// membership asks every node whether it votes. Unless all is set, it does not wait for
// further nodes once a majority votes.
func (s *Sessions) membership(ctx context.Context, all bool) (*membership, error) {
	reports := make([]driver.Membership, len(s.slots))
	errs, err := s.All(ctx, func(ctx context.Context, i int, at *Session) (err error) {
		reports[i], err = at.Voter.Enlist(ctx, s.set.ID)
		// The node was restarted, or its address leads to another store now.
		if errors.Is(at.Check(err), driver.ErrGone) {
			if at, err = s.slots[i].open(ctx); err == nil {
				reports[i], err = at.Voter.Enlist(ctx, s.set.ID)
			}
		}
		return err
	}, func(errs []error) bool {
		m := membership{s.set, reports, errs}
		return !all && m.voting() >= s.set.Majority
	})
	if err != nil {
		return nil, err
	}
	m := &membership{s.set, make([]driver.Membership, len(reports)), errs}
	for i, err := range errs {
		if err == nil { // the others may still be writing their report
			m.reports[i] = reports[i]
		}
	}
	return m, nil
}

// votes reports whether node i votes.
func (m *membership) votes(i int) bool { return m.errs[i] == nil && m.reports[i].Votes }

// silent reports whether node i answers and does not vote.
func (m *membership) silent(i int) bool { return m.errs[i] == nil && !m.reports[i].Votes }

// mayRejoin reports whether node i has not voted for long enough to vote again.
func (m *membership) mayRejoin(i int) bool {
	return m.silent(i) && m.reports[i].Since >= m.set.silence()
}

// voting counts the nodes that vote.
func (m *membership) voting() (n int) {
	for i := range m.reports {
		if m.votes(i) {
			n++
		}
	}
	return n
}

// repairable reports whether a node answers that does not vote, and not too many deny it.
func (m *membership) repairable() bool {
	if m.set.denied(m.errs) {
		return false
	}
	for i := range m.reports {
		if m.silent(i) {
			return true
		}
	}
	return false
}

// mustBootstrap reports whether the quorum has to be started on all nodes at once. Every
// node must answer. Then either all nodes are new and have been running for the time of
// silence, because nodes that started empty a moment ago may have lost their data; or
// fewer nodes vote than show every grant, and all others have been silent long enough.
func (m *membership) mustBootstrap() bool {
	allNew, allReady := true, true
	for i, report := range m.reports {
		if m.errs[i] != nil {
			return false
		}
		allNew = allNew && report.New && report.Age >= m.set.silence()
		allReady = allReady && (report.Votes || m.mayRejoin(i))
	}
	return allNew || allReady && m.voting() < m.set.readers()
}

// err says why no majority votes.
func (m *membership) err() error {
	var reasons []error
	for i, err := range m.errs {
		switch {
		case err != nil:
			reasons = append(reasons, m.set.nodeError(i, err))
		case m.mayRejoin(i):
			reasons = append(reasons, fmt.Errorf("%s: does not vote yet", m.set.Nodes[i].Name))
		case m.silent(i):
			left := m.set.silence() - m.reports[i].Since
			reasons = append(reasons, fmt.Errorf("%s: has lost its data or is new, and votes no earlier than in %v", m.set.Nodes[i].Name, left.Round(time.Millisecond)))
		}
	}
	err := fmt.Errorf("quorum: %d of %d nodes vote, %d are needed: %w", m.voting(), len(m.set.Nodes), m.set.Majority, driver.Join(reasons...))
	if m.set.denied(m.errs) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}
