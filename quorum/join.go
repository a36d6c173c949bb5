package quorum

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// patience is how long Open waits for a quorum that another client is forming.
const patience = time.Second

// muster opens the seats and returns when a majority votes.
func (s *session) muster(ctx context.Context) error {
	wait := 5 * time.Millisecond
	for began := time.Now(); ; wait *= 2 {
		roll, err := s.mend(ctx, false)
		if err != nil {
			return err
		}
		if err := s.e.shared(); err != nil {
			return err
		}
		if roll.voting() >= s.e.majority {
			if roll.voting() < len(s.seats) {
				s.e.mender.kick()
			}
			return nil
		}
		if time.Since(began) > patience || !roll.mending() {
			return roll.fault(s.e.majority)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A rollCall is what the nodes say of themselves.
type rollCall struct {
	nodes  []Node
	rolls  []driver.Membership
	errs   []error
	silent time.Duration // how long a node that lost its data stays silent
}

func (r *rollCall) voting() (n int) {
	for i, roll := range r.rolls {
		if r.errs[i] == nil && roll.Votes {
			n++
		}
	}
	return n
}

// mending reports whether a node answers that does not vote.
func (r *rollCall) mending() bool {
	for i, roll := range r.rolls {
		if r.errs[i] == nil && !roll.Votes {
			return true
		}
	}
	return false
}

// ripe reports whether node i has been silent for long enough.
func (r *rollCall) ripe(i int) bool {
	return r.errs[i] == nil && !r.rolls[i].Votes && r.rolls[i].Since >= r.silent
}

// founding reports whether the quorum has to be founded: every node answers, and
// either all are new and have been there for long enough, since nodes that were
// started empty a moment ago may have lost what they knew; or too few vote, and
// all others have been silent for long enough.
func (r *rollCall) founding(readers int) bool {
	aged, ripe := true, true
	for i, roll := range r.rolls {
		if r.errs[i] != nil {
			return false
		}
		aged = aged && roll.New && roll.Age >= r.silent
		ripe = ripe && (roll.Votes || r.ripe(i))
	}
	return aged || ripe && r.voting() < readers
}

// fault says why no majority votes.
func (r *rollCall) fault(majority int) error {
	var told []error
	for i, err := range r.errs {
		switch {
		case err != nil:
			told = append(told, hide(err))
		case !r.rolls[i].Votes && r.ripe(i):
			told = append(told, fmt.Errorf("%s: does not vote yet", r.nodes[i].Name))
		case !r.rolls[i].Votes:
			told = append(told, fmt.Errorf("%s: has lost its data or is new, and votes no earlier than in %v", r.nodes[i].Name, (r.silent-r.rolls[i].Since).Round(time.Millisecond)))
		}
	}
	return fmt.Errorf("%w: quorum: %d of %d nodes vote, %d are needed: %w", driver.ErrUnreachable, r.voting(), len(r.nodes), majority, driver.Join(told...))
}

// call asks every node whether it votes; a majority that does is enough unless
// all are wanted.
func (s *session) call(ctx context.Context, all bool) (*rollCall, error) {
	r := &rollCall{nodes: s.e.nodes, silent: s.e.maxTTL + drift(s.e.maxTTL)}
	rolls := make([]driver.Membership, len(s.seats))
	var err error
	r.errs, err = s.everywhere(ctx, func(ctx context.Context, i int, p *place) (err error) {
		rolls[i], err = p.voter.Enlist(ctx, s.e.list)
		if errors.Is(err, driver.ErrGone) { // it was restarted, or its name leads elsewhere now: begin anew there
			s.seats[i].drop(s.ctx, p)
			if p, err = s.seats[i].reach(ctx); err == nil {
				rolls[i], err = p.voter.Enlist(ctx, s.e.list)
			}
		}
		return err
	}, func(errs []error) bool {
		n := 0
		for i, err := range errs {
			if err == nil && rolls[i].Votes {
				n++
			}
		}
		return !all && n >= s.e.majority
	})
	if err != nil {
		return nil, err
	}
	r.rolls = make([]driver.Membership, len(rolls))
	for i, err := range r.errs {
		if err == nil {
			r.rolls[i] = rolls[i]
		}
	}
	return r, nil
}

// readers is how many nodes must be asked so that every majority has one of them.
func (e *Engine) readers() int { return len(e.nodes) - e.majority + 1 }

// mend asks who votes, and lets those vote that may.
func (s *session) mend(ctx context.Context, all bool) (*rollCall, error) {
	r, err := s.call(ctx, all)
	if err != nil || r.voting() == len(s.seats) || !all && r.voting() >= s.e.majority {
		return r, err
	}
	if r.founding(s.e.readers()) {
		s.found(ctx)
		return s.call(ctx, all)
	}
	changed := false
	for i := range s.seats {
		if r.ripe(i) && r.voting() >= s.e.readers() {
			changed = s.rejoin(ctx, r, i) == nil || changed
		}
	}
	if changed {
		return s.call(ctx, all)
	}
	return r, nil
}

// A mark is a node's highest token and epoch.
type mark struct{ high, epoch uint64 }

// marks asks nodes for their marks. Those that do not answer are missing.
func (s *session) marks(ctx context.Context, of func(i int) bool) map[int]mark {
	got := make([]mark, len(s.seats))
	errs, _ := s.everywhere(ctx, func(ctx context.Context, i int, p *place) (err error) {
		if of(i) {
			got[i].high, got[i].epoch, err = p.voter.Mark(ctx)
		}
		return err
	}, nil)
	marks := map[int]mark{}
	for i, err := range errs {
		if of(i) && err == nil {
			marks[i] = got[i]
		}
	}
	return marks
}

// raise lifts mark and epoch of nodes and returns those that did.
func (s *session) raise(ctx context.Context, of func(i int) bool, to mark) map[int]bool {
	errs, _ := s.everywhere(ctx, func(ctx context.Context, i int, p *place) error {
		if !of(i) {
			return errWaiting
		}
		return p.voter.Rejoin(ctx, to.high, to.epoch)
	}, nil)
	raised := map[int]bool{}
	for i, err := range errs {
		if err == nil {
			raised[i] = true
		}
	}
	return raised
}

// top is the highest of marks.
func top(marks map[int]mark) (t mark) {
	for _, m := range marks {
		t.high, t.epoch = max(t.high, m.high), max(t.epoch, m.epoch)
	}
	return t
}

// found starts the quorum in a new epoch on all nodes. Another client may do the
// same: the nodes take the first.
func (s *session) found(ctx context.Context) {
	all := func(int) bool { return true }
	marks := s.marks(ctx, all)
	if len(marks) < len(s.seats) {
		return
	}
	to := top(marks)
	to.epoch = nextEpoch(to.epoch)
	s.raise(ctx, all, to)
}

// rejoin lets node i vote again. The epoch is raised first and the marks are
// read after it: a grant that a mark does not show was then given in the new
// epoch, and is never combined with one that node i gave before its loss.
func (s *session) rejoin(ctx context.Context, r *rollCall, i int) error {
	votes := func(j int) bool { return j != i && r.errs[j] == nil && r.rolls[j].Votes }
	to := top(s.marks(ctx, func(j int) bool { return j == i || votes(j) }))
	to = mark{epoch: nextEpoch(to.epoch)}
	raised := s.raise(ctx, votes, to)
	marks := s.marks(ctx, func(j int) bool { return raised[j] })
	maps.DeleteFunc(marks, func(_ int, m mark) bool { return m.epoch < to.epoch }) // emptied since: it is not its mark
	if len(marks) < s.e.readers() {
		return fmt.Errorf("quorum: %d of %d marks were read", len(marks), s.e.readers())
	}
	to.high = top(marks).high
	if !s.raise(ctx, func(j int) bool { return j == i }, to)[i] {
		return driver.ErrConflict
	}
	return nil
}

// level gives nodes that vote in different epochs a new one: votes of an older one
// count for nothing, and the newest may be one that a rejoin did not finish.
func (s *session) level(ctx context.Context, r *rollCall) {
	marks := s.marks(ctx, func(i int) bool { return r.errs[i] == nil && r.rolls[i].Votes })
	newest := top(marks).epoch
	for _, m := range marks {
		if m.epoch < newest {
			s.raise(ctx, func(i int) bool { _, ok := marks[i]; return ok }, mark{epoch: nextEpoch(newest)})
			return
		}
	}
}

// nextEpoch is above the last, and no other attempt's: two that raise epochs at
// once must not take each other's for their own.
func nextEpoch(last uint64) uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return (last>>32+1)<<32 | uint64(binary.BigEndian.Uint32(b[:]))
}

// A mender brings back nodes that do not vote, for as long as there are any that
// answer, on one goroutine of the engine.
type mender struct {
	e       *Engine
	mu      sync.Mutex // guards what follows
	running bool
	again   bool
}

// kick tells the mender that a node does not vote, or votes in another epoch.
func (m *mender) kick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.again = true
	if !m.running {
		m.running = m.e.start(m.run)
	}
}

func (m *mender) run() {
	s := newSession(m.e, driver.SessionOptions{ID: newID(), TTL: m.e.maxTTL, Note: "mends the quorum"})
	defer s.Close(m.e.ctx)
	for m.more() {
		pause := m.round(s)
		if pause == 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-m.e.ctx.Done():
		}
	}
}

// more reports whether there is anything left to do.
func (m *mender) more() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = m.again && m.e.ctx.Err() == nil
	m.again = false
	return m.running
}

// round mends what can be mended now and returns when to look again; 0: nothing
// is left to do.
func (m *mender) round(s *session) time.Duration {
	r, err := s.mend(m.e.ctx, true)
	if err != nil {
		return 0
	}
	s.level(m.e.ctx, r)
	pause := time.Duration(0)
	for i, roll := range r.rolls {
		if r.errs[i] != nil || roll.Votes {
			continue
		}
		wait := max(r.silent-roll.Since, 100*time.Millisecond)
		if pause == 0 || wait < pause {
			pause = wait
		}
	}
	if pause > 0 {
		m.mu.Lock()
		m.again = true
		m.mu.Unlock()
	}
	return min(pause, time.Second)
}

// newID returns an id for a session of the mender.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(hex.EncodeToString(b))
}
