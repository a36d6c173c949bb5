package etcdlock

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// A claimState is one claim of a session and its key.
//
// It is kept from before its first Enter is sent until the claim has certainly ended,
// so that a repeated call uses the same key.
type claimState struct {
	claim driver.Claim
	line  lineKeys
	slot  slot
	key   string
	value string
	since time.Time // when it was made

	// guarded by session.mu
	revision   int64      // create revision of the key; 0: no Enter was answered yet
	held       bool       // it stays so until the key is gone
	blockers   []claimKey // when last read
	unanswered time.Time  // when the last Enter was sent that had no answer
	left       bool       // ended, but an unanswered Enter may still put the key again
	wait       waitState  // of the last Await, for the next
}

// owns holds while key is this claim's, which was created at revision if that is known.
func (p *claimState) owns(key string, revision int64) clientv3.Cmp {
	if revision != 0 {
		return etcdstore.CreatedAt(key, revision)
	}
	return clientv3.Compare(clientv3.Value(key), "=", p.value)
}

// A waitState is the watches of a claim that waits. Between two calls of Await it is
// kept with the claim, so that the next call need not read again what is known; it ends
// when the claim is held, left or gone, and with its session.
type waitState struct {
	blockers        *etcdstore.Watch // on the claims that keep this one from being held
	blockersChecked bool             // since the watch started the claim was read and waits, and every reported change was followed by a read
	own             *etcdstore.Watch // on the claim's own key; nil: not started
	ownChecked      bool             // since the watch started the key was seen
	checkedAt       time.Time        // when the store was last asked about the claim
}

// close ends the watches. It may be called twice.
func (w *waitState) close() {
	w.blockers.Close()
	w.own.Close()
	*w = waitState{}
}

// newClaim makes the state of c.
func (s *session) newClaim(c driver.Claim) *claimState {
	p := &claimState{claim: c, line: s.keys.line(c.Name), value: encodeValue(c, s.id), since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assignSlotLocked(p)
	s.claims[c.ID] = p
	return p
}

// find returns the state of a claim, if it is of the same try.
func (s *session) find(c driver.Claim) *claimState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.claims[c.ID]; p != nil && p.claim.Try == c.Try && !p.left {
		return p
	}
	return nil
}

// forget drops a claim whose key is not there. While an Enter of it may still arrive,
// its slot stays taken and the claim known: the core leaves it again, and must find a
// key that was put late.
func (s *session) forget(p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(p)
}

func (s *session) forgetLocked(p *claimState) {
	if s.claims[p.claim.ID] != p {
		return // forgotten before, or followed by a later try
	}
	p.wait.close()
	s.forgotten = s.forgotten || p.revision != 0
	if !p.unanswered.IsZero() && time.Since(p.unanswered) < s.lease.TTL {
		p.left, p.held, p.revision, p.blockers = true, false, 0, nil
		return
	}
	delete(s.claims, p.claim.ID)
	decrement(s.slots, p.slot)
}

// setEntered records that p's key was created at revision.
func (s *session) setEntered(p *claimState, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.revision, p.left = revision, false
}

// restore puts back a claim that was left, to enter it again.
func (s *session) restore(p *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.revision = 0
	if s.claims[p.claim.ID] == p {
		p.left = false
		return
	}
	s.assignSlotLocked(p)
	s.claims[p.claim.ID] = p
}

// forgetExpired drops claims that were kept for an Enter that can no longer arrive.
func (s *session) forgetExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.claims {
		if p.left && time.Since(p.unanswered) > 2*s.lease.TTL {
			s.forgetLocked(p)
		}
	}
}
