package nodes

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// joinWait is how long Join waits while another client starts the quorum.
const joinWait = time.Second

// Join opens the sessions and returns when a majority votes.
func (s *Sessions) Join(ctx context.Context) error {
	wait := 5 * time.Millisecond
	for start := time.Now(); ; wait *= 2 {
		m, err := s.repair(ctx, false)
		if err != nil {
			return err
		}
		if err := s.set.SharedStore(); err != nil {
			return err
		}
		if m.voting() >= s.set.Majority {
			if m.voting() < len(s.slots) {
				s.needRepair()
			}
			return nil
		}
		if time.Since(start) > joinWait || !m.repairable() {
			return m.err()
		}
		if !driverkit.Pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// repair asks which nodes vote, and lets those vote that may. Unless all is set, a
// majority that votes is enough.
func (s *Sessions) repair(ctx context.Context, all bool) (*membership, error) {
	m, err := s.membership(ctx, all)
	if err != nil || m.voting() == len(s.slots) || !all && m.voting() >= s.set.Majority {
		return m, err
	}
	if m.mustBootstrap() {
		s.bootstrap(ctx)
		return s.membership(ctx, all)
	}
	changed := false
	for i := range s.slots {
		if m.mayRejoin(i) && m.voting() >= s.set.readers() {
			changed = s.rejoin(ctx, m, i) == nil || changed
		}
	}
	if changed {
		return s.membership(ctx, all)
	}
	return m, nil
}

// bootstrap starts the quorum in a new epoch on all nodes. Another client may do the
// same at the same time: each node accepts the first.
func (s *Sessions) bootstrap(ctx context.Context) {
	all := func(int) bool { return true }
	marks := s.marks(ctx, all)
	if len(marks) < len(s.slots) {
		return
	}
	to := highest(marks)
	to.epoch = nextEpoch(to.epoch)
	s.raise(ctx, all, to)
}

// rejoin lets node i vote again. The epoch is raised first and the marks are read
// after it: a grant that no mark shows was then given in the new epoch, and is never
// combined with a grant that node i gave before its loss.
func (s *Sessions) rejoin(ctx context.Context, m *membership, i int) error {
	voters := func(j int) bool { return j != i && m.votes(j) }
	known := s.marks(ctx, func(j int) bool { return j == i || voters(j) })
	to := mark{epoch: nextEpoch(highest(known).epoch)}
	raised := s.raise(ctx, voters, to)
	marks := s.marks(ctx, func(j int) bool { return raised[j] })
	// A node in a lower epoch was emptied after its epoch was raised: its mark is lost.
	maps.DeleteFunc(marks, func(_ int, m mark) bool { return m.epoch < to.epoch })
	if len(marks) < s.set.readers() {
		return fmt.Errorf("quorum: %d of %d marks were read", len(marks), s.set.readers())
	}
	to.token = highest(marks).token
	if !s.raise(ctx, func(j int) bool { return j == i }, to)[i] {
		return driver.ErrConflict
	}
	return nil
}

// alignEpochs moves nodes that vote in different epochs to a new one. A client that
// died while it raised epochs leaves such nodes behind: their votes are never combined.
// The highest epoch present is not used, because its rejoin may not have finished.
func (s *Sessions) alignEpochs(ctx context.Context, m *membership) {
	marks := s.marks(ctx, m.votes)
	newest := highest(marks).epoch
	for _, at := range marks {
		if at.epoch < newest {
			s.raise(ctx, func(i int) bool { _, ok := marks[i]; return ok }, mark{epoch: nextEpoch(newest)})
			return
		}
	}
}

// A mark is the highest token that a node knows, and its epoch.
type mark struct{ token, epoch uint64 }

// marks reads the marks of the nodes that include selects. Nodes that do not answer
// are missing from the result.
func (s *Sessions) marks(ctx context.Context, include func(i int) bool) map[int]mark {
	read := make([]mark, len(s.slots))
	errs, _ := s.All(ctx, func(ctx context.Context, i int, at *Session) (err error) {
		if include(i) {
			read[i].token, read[i].epoch, err = at.Voter.Mark(ctx)
		}
		return err
	}, nil)
	marks := map[int]mark{}
	for i, err := range errs {
		if include(i) && err == nil {
			marks[i] = read[i]
		}
	}
	return marks
}

// raise raises the mark and epoch of the nodes that include selects, and returns those
// that did so.
func (s *Sessions) raise(ctx context.Context, include func(i int) bool, to mark) map[int]bool {
	errs, _ := s.All(ctx, func(ctx context.Context, i int, at *Session) error {
		if !include(i) {
			return ErrPending
		}
		return at.Voter.Rejoin(ctx, to.token, to.epoch)
	}, nil)
	raised := map[int]bool{}
	for i, err := range errs {
		if err == nil {
			raised[i] = true
		}
	}
	return raised
}

// highest returns the highest token and the highest epoch of marks.
func highest(marks map[int]mark) (top mark) {
	for _, m := range marks {
		top.token, top.epoch = max(top.token, m.token), max(top.epoch, m.epoch)
	}
	return top
}

// nextEpoch returns an epoch above last that no other client chooses: two clients that
// raise epochs at the same time must not mistake the other's epoch for their own.
func nextEpoch(last uint64) uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return (last>>32+1)<<32 | uint64(binary.BigEndian.Uint32(b[:]))
}
