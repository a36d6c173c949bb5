package etcdlock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// Beat prolongs the lease, and with it every claim, by one message. Then it compares
// the key of each claim with the one that was created for it: a keepalive does not
// notice that a key was deleted, or deleted and put again by an Enter that arrived
// late, and some servers answer it for a lease that was revoked.
func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.lease.KeepAlive(ctx); err != nil {
		return err
	}
	if s.lease.Interrupted() {
		s.expectOrphans()
	}
	missing, err := s.verify(ctx, live, out)
	if err == nil && missing {
		err = s.lease.Exists(ctx)
	}
	if err == nil {
		err = s.deleteOrphans(ctx)
	}
	s.forgetExpired()
	return err
}

// expectOrphans makes the beat look for orphans if an earlier state of the store could have
// some: keys of claims that have ended since.
func (s *session) expectOrphans() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orphanSeen = s.orphanSeen || s.forgotten
}

// deleteOrphans deletes the keys under the lease that belong to no claim. A server that
// was stopped for longer than the session remembers an unanswered Enter puts its key
// when it runs again, and a restored backup has the keys of claims that were left since:
// such a key would be in line for as long as the session lives. An orphan that cannot be
// deleted now is found by the next beat. It does nothing while there can be no orphan.
func (s *session) deleteOrphans(ctx context.Context) error {
	s.mu.Lock()
	if !s.orphanSeen && s.late != nil && len(s.late) == 0 {
		s.mu.Unlock()
		return nil
	}
	orphaned := s.orphaned
	s.orphaned, s.orphanSeen = nil, false // an orphan that is seen from now on may be too new for this beat
	s.mu.Unlock()
	keys, revision, err := s.lease.Keys(ctx)
	if err == nil {
		err = s.deleteOrphansOf(ctx, keys, revision)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.orphaned, s.orphanSeen = append(s.orphaned, orphaned...), true
		return err
	}
	for _, at := range orphaned {
		decrement(s.slots, at)
	}
	return nil
}

// deleteOrphansOf deletes those of keys that belong to no claim. The keys were there at
// revision or later: a claim that got such a key since has a higher create revision.
func (s *session) deleteOrphansOf(ctx context.Context, keys [][]byte, revision int64) error {
	for _, key := range s.orphans(keys) {
		if _, err := s.lease.DeleteIf(ctx, key, etcdstore.CreatedUpTo(key, revision)); err != nil {
			return err
		}
	}
	return nil
}

// orphans returns those of keys that belong to no claim in line. The key of a claim that
// was left is an orphan: it was put after the claim's end.
func (s *session) orphans(keys [][]byte) (orphans []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]bool, len(s.claims))
	for _, p := range s.claims {
		known[p.key] = !p.left
	}
	for _, key := range keys {
		if !known[string(key)] {
			orphans = append(orphans, string(key))
		}
	}
	return orphans
}
