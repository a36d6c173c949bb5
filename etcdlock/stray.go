package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// endStrays deletes the keys that the lease has and no claim: an Enter that a server
// has kept for longer than anybody remembers, as one that stood still does, lands when
// it moves again, and would be in line for as long as the session lives. What cannot
// be deleted now is found by the next beat. rev is of when the keys were there, or
// earlier: whatever claim has such a key since came later.
func (s *session) endStrays(ctx context.Context, keys map[string]bool, rev int64) {
	for _, key := range s.strays(keys) {
		_, err := s.e.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "<", rev+1)).
			Then(clientv3.OpDelete(key)).Commit()
		if err != nil {
			return
		}
	}
}

func (s *session) strays(keys map[string]bool) (strays []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]bool, len(s.spots))
	for _, p := range s.spots {
		known[p.key] = true
	}
	for key := range keys {
		if !known[key] {
			strays = append(strays, key)
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
