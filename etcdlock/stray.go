package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// endStrays deletes the keys that the lease has and no claim: an Enter that a server
// has kept for longer than anybody remembers, as one that stood still does, lands when
// it moves again, and would be in line for as long as the session lives. What cannot
// be deleted now is found by the next beat.
func (s *session) endStrays(ctx context.Context) error {
	got, err := s.e.client.TimeToLive(ctx, s.lease, clientv3.WithAttachedKeys())
	if err != nil {
		return classify(ctx, err)
	}
	if got.TTL < 0 {
		return driver.ErrGone
	}
	return s.deleteStrays(ctx, got.Keys, got.Revision)
}

// deleteStrays deletes those of keys that no claim has. rev is of when they were there,
// or earlier: whatever claim has such a key since came later.
func (s *session) deleteStrays(ctx context.Context, keys [][]byte, rev int64) error {
	for _, key := range s.strays(keys) {
		if _, err := s.remove(ctx, key, clientv3.Compare(clientv3.CreateRevision(key), "<", rev+1)); err != nil {
			return err
		}
	}
	return nil
}

// strays returns which of keys are of no claim that is in line. One that was left is
// not: what stands there came after its end.
func (s *session) strays(keys [][]byte) (strays []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]bool, len(s.spots))
	for _, p := range s.spots {
		known[p.key] = !p.left
	}
	for _, key := range keys {
		if !known[string(key)] {
			strays = append(strays, string(key))
		}
	}
	return strays
}

// doubts reports whether there may be strays: an Enter was not answered.
func (s *session) doubts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubtful
}
