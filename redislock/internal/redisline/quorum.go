package redisline

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

var _ driver.Voter = (*session)(nil)

// A membership is a session's part in a quorum. It stays with the server that the
// session first enlisted at: the address may lead to another server later, even to one
// that is a node of the quorum by another name and must not vote twice.
type membership struct {
	list       string // names the quorum's nodes
	run        string // the run id of the server
	generation string // of the node's memory, as the last Enlist has seen it
	epoch      string // the last known one
	seen       string // the epoch that the last Enlist has seen, or Rejoin has set
}

func (s *session) quorum() *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.membership
}

// Enlist makes the session one of a quorum. A cluster cannot be a node.
func (s *session) Enlist(ctx context.Context, list string) (driver.Membership, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return driver.Membership{}, err
	}
	key := s.store.Keys.Membership()
	if s.store.Keys.Cluster() {
		return driver.Membership{}, fmt.Errorf("redislock: a cluster cannot be one node of a quorum: %w", driver.ErrUnsupported)
	}
	r, err := s.store.run(ctx, enlistScript, []string{key}, list)
	if err != nil {
		return driver.Membership{}, redisclient.Wrap(err)
	}
	if r.Int == 1 {
		return driver.Membership{}, fmt.Errorf("redislock: a quorum's node must be a Redis 7 or newer that shows its run id in INFO: %w", driver.ErrUnsupported)
	}
	if len(r.Array) < 6 {
		return driver.Membership{}, fmt.Errorf("redislock: this node serves a quorum of other nodes, or of the same with another longest ttl (its key is %q): %w", key, driver.ErrDenied)
	}
	votes, silent, run := r.Array[0].Text, millis(r.Array[1].Int), r.Array[5].Text
	if m := s.quorum(); m != nil && m.run != run {
		s.claims.Clear()
		return driver.Membership{}, driver.ErrGone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.membership = &membership{list: list, run: run, generation: r.Array[2].Text, epoch: r.Array[3].Text, seen: r.Array[3].Text}
	if votes == "1" {
		return driver.Membership{Votes: true, Store: run}, nil
	}
	return driver.Membership{New: votes == "n", Since: silent, Age: time.Duration(r.Array[4].Int) * time.Second, Store: run}, nil
}

// Mark returns the fence and the epoch.
func (s *session) Mark(ctx context.Context) (high, epoch uint64, err error) {
	if err := s.claims.Begin(ctx); err != nil {
		return 0, 0, err
	}
	answers := make([]redisclient.Answer, 2)
	s.store.Client.DoMany(ctx, []redisclient.Call{
		redisclient.Command("GET", s.store.Keys.Fence("")),
		redisclient.Command("HGET", s.store.Keys.Membership(), "epoch"),
	}, answers)
	if err := driver.Join(answers[0].Err, answers[1].Err); err != nil {
		return 0, 0, redisclient.Wrap(err)
	}
	return uint64(keyspace.Number(answers[0].Text)), uint64(keyspace.Number(answers[1].Text)), nil
}

// Rejoin raises fence and epoch, and lets the node vote.
func (s *session) Rejoin(ctx context.Context, high, epoch uint64) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	m := s.quorum()
	if m == nil {
		return driver.ErrConflict
	}
	next := strconv.FormatUint(epoch, 10)
	r, err := s.store.run(ctx, rejoinScript, []string{s.store.Keys.Membership(), s.store.Keys.Fence("")},
		m.generation, strconv.FormatUint(high, 10), next, m.seen, m.list)
	if err != nil {
		return redisclient.Wrap(err)
	}
	if r.Int == 0 {
		return driver.ErrConflict
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.seen = next
	return nil
}

// Confirm raises the fence if the grant still stands.
func (s *session) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	if err := s.claims.Begin(ctx); err != nil {
		return false, err
	}
	if token >= 1<<53 {
		return false, fmt.Errorf("redislock: token %d is out of range", token)
	}
	m := s.quorum()
	if m == nil {
		return false, driver.ErrNoVote
	}
	keys, prefix := s.keysOf(&c)
	r, err := s.store.run(ctx, confirmScript,
		[]string{keys.Hold, keys.Line, keys.Fence, s.store.Keys.Membership()},
		prefix, strconv.FormatUint(granted, 10), strconv.FormatUint(token, 10), m.list, m.run)
	if err != nil {
		return false, s.store.wrap(c.Name, err)
	}
	return r.Int == 1, s.noVote(r)
}

// maxEpochs is how often an Enter is repeated because the node was in another epoch
// than the session knew.
const maxEpochs = 3

// enterQuorum is Enter at a node of a quorum. A node that is in another epoch, or does
// not vote, has changed nothing.
func (s *session) enterQuorum(ctx context.Context, c *driver.Claim, state claimState, m *membership, waiting string) (redisclient.Reply, uint64, error) {
	keys := state.keys
	sc := quorumEnterScript
	if !c.Exclusive() {
		sc = quorumShareScript
	}
	propose := strconv.FormatUint(max(c.Propose, 1), 10)
	for range maxEpochs {
		s.mu.Lock()
		epoch := m.epoch
		s.mu.Unlock()
		r, err := again(ctx, func() (redisclient.Reply, error) {
			return s.store.run(ctx, sc,
				[]string{keys.Hold, keys.Line, keys.Fence, s.store.Keys.Membership()},
				state.prefix, keyspace.HoldSuffix(c.Limit, s.part, keyspace.WithEpoch(epoch, c.Note)), s.millis, waiting,
				propose, epoch, m.list, m.run)
		})
		if err == nil {
			err = s.noVote(r)
		}
		if err != nil {
			return redisclient.Reply{}, 0, err
		}
		if len(r.Array) == 2 && r.Array[0].Int == codeEpoch {
			s.mu.Lock()
			m.epoch = r.Array[1].Text
			s.mu.Unlock()
			continue
		}
		return r, uint64(keyspace.Number(epoch)), nil
	}
	return redisclient.Reply{}, 0, fmt.Errorf("redislock: the node's epoch changed %d times: %w", maxEpochs, driver.ErrNoVote)
}

// checkVotes is the beat of a session without claims: it returns ErrNoVote if the node
// of a quorum does not vote.
func (s *session) checkVotes(ctx context.Context) error {
	m := s.quorum()
	if m == nil {
		return nil
	}
	now, err := s.Enlist(ctx, m.list)
	if err == nil && !now.Votes {
		err = driver.ErrNoVote
	}
	return err
}

// noVote returns the error of a node that did not vote; nil if it did. If the server
// was restarted or is another one now, the session has ended and its claims are no
// longer its own to end: the caller's next session may have entered them again.
func (s *session) noVote(r redisclient.Reply) error {
	switch {
	case len(r.Array) != 1:
	case r.Array[0].Int == codeSilent:
		return driver.ErrNoVote
	case r.Array[0].Int == codeOtherServer:
		s.claims.Clear()
		return driver.ErrGone
	}
	return nil
}
