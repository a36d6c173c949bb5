package driverkit

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// Claims are the claims of one session that may be in a line of the store: added before
// they are sent, removed when they have certainly ended. So Close knows what to end
// whatever became of an answer, and a notification finds its claim even if it overtakes
// the answer to Enter. S is what the engine keeps with each claim.
//
// Of the tries of one ID the table has the highest: a late call of an earlier try
// neither replaces nor ends a later one.
type Claims[S any] struct {
	mu     sync.Mutex // guards what follows, and the State of all claims
	byID   map[string]*Claimed[S]
	closed bool
	ended  chan struct{} // closed by Close
}

// A Claimed is one claim of a session.
type Claimed[S any] struct {
	Claim  driver.Claim
	Waiter Waiter
	State  S // guarded by the table: read and written in With
}

// NewClaims returns an empty table.
func NewClaims[S any]() *Claims[S] {
	return &Claims[S]{byID: map[string]*Claimed[S]{}, ended: make(chan struct{})}
}

// Begin says whether a call may be sent: it returns ctx's error, or ErrGone after Close.
func (t *Claims[S]) Begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.Closed() {
		return driver.ErrGone
	}
	return nil
}

// Add adds a claim that is about to be entered; errors are those of Begin. A claim of
// the same ID and Try stays as it is, and is returned. A lower Try is replaced. A claim
// that comes after a higher Try is returned without being added: no one reads the
// answer to its call. before is what the table had of the ID, for Refused.
func (t *Claims[S]) Add(ctx context.Context, c driver.Claim, state S) (p, before *Claimed[S], err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	p = &Claimed[S]{Claim: c, State: state}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, driver.ErrGone
	}
	before = t.byID[c.ID]
	switch {
	case before == nil || before.Claim.Try < c.Try:
		t.byID[c.ID] = p
	case before.Claim.Try == c.Try:
		p = before
	}
	return p, before, nil
}

// Refused takes back an Add whose call the store has refused without changing anything.
// What an earlier call may have put into the line stays, or is back.
func (t *Claims[S]) Refused(p, before *Claimed[S]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byID[p.Claim.ID] != p: // ended or replaced meanwhile
	case before != nil:
		t.byID[p.Claim.ID] = before
	default:
		delete(t.byID, p.Claim.ID)
	}
}

// Current returns the claim of an ID in its highest try.
func (t *Claims[S]) Current(id string) (c driver.Claim, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[id]; p != nil {
		return p.Claim, true
	}
	return driver.Claim{}, false
}

// Find returns the claim of an ID in exactly this try, or nil.
func (t *Claims[S]) Find(id string, try int) *Claimed[S] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.findLocked(id, try)
}

func (t *Claims[S]) findLocked(id string, try int) *Claimed[S] {
	if p := t.byID[id]; p != nil && p.Claim.Try == try {
		return p
	}
	return nil
}

// With calls f with the claim of an ID in exactly this try, under the table's mutex, and
// reports whether there is one.
func (t *Claims[S]) With(id string, try int, f func(*Claimed[S])) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.findLocked(id, try)
	if p != nil {
		f(p)
	}
	return p != nil
}

// End removes a claim that is certainly in no line, and wakes its Await. A later try of
// the same ID stays.
func (t *Claims[S]) End(c driver.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[c.ID]; p != nil && p.Claim.Try <= c.Try {
		delete(t.byID, c.ID)
		p.Waiter.Wake()
	}
}

// Clear removes all claims and wakes their Awaits, because the store has lost its data.
// They are not the session's to end any more: a later session may have entered them again.
func (t *Claims[S]) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byID {
		p.Waiter.Wake()
	}
	clear(t.byID)
}

// Close refuses further calls, ends the Awaits under way and returns the claims that may
// still be in a line. It may be called again, for those that could not be ended.
func (t *Claims[S]) Close() []driver.Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.ended)
	}
	left := make([]driver.Claim, 0, len(t.byID))
	for _, p := range t.byID {
		left = append(left, p.Claim)
	}
	return left
}

// Closed reports whether Close was called. An Enter asks it again after its answer:
// Close may have looked for claims before that one was in its line.
func (t *Claims[S]) Closed() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// Ended is closed by Close.
func (t *Claims[S]) Ended() <-chan struct{} { return t.ended }
