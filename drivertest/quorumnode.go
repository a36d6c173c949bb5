package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// quorumNodeCases test nodes of a quorum, on engines whose sessions are a
// driver.Voter. They form a single case because a store has only one quorum
// membership.
var quorumNodeCases = []lawCase{
	{name: "a quorum's node votes only for what it remembers", law: 3, needs: needs{fencing: true, shared: true}, run: quorumNodeVotes,
		why: "Two holders of a name share a node. If it confirms a grant that no longer stands, or forgets a mark, both get the same token."},
}

const quorumList = "drivertest"

func quorumNodeVotes(f *fixture) {
	a, b := f.open(), f.open()
	va, ok := unwrapped(a.Session).(driver.Voter)
	vb, _ := unwrapped(b.Session).(driver.Voter)
	if !ok {
		f.Log("the session is no driver.Voter")
		return
	}
	v := &quorumCase{fixture: f, a: a, b: b, va: va, vb: vb}
	if !v.joins() {
		return
	}
	v.proposes()
	v.confirms()
	v.confirmsReaders()
	v.letsIn()
	v.raisesTheEpoch()
}

type quorumCase struct {
	*fixture
	a, b   *session
	va, vb driver.Voter
}

func (v *quorumCase) mark() (high, epoch uint64) {
	v.Helper()
	high, epoch, err := v.va.Mark(v.ctx)
	if err != nil {
		v.Fatalf("Mark: %v", err)
	}
	return high, epoch
}

// joins checks that an enlisted session can enter only if the node votes. It
// returns false if the store cannot be a node.
func (v *quorumCase) joins() bool {
	v.Helper()
	membership, err := v.va.Enlist(v.ctx, quorumList)
	if errors.Is(err, driver.ErrUnsupported) {
		v.Logf("Enlist: %v", err)
		return false
	}
	if err != nil {
		v.Fatalf("Enlist: %v", err)
	}
	if !membership.Votes { // no quorum has claimed it, and a question does not either
		if other, err := v.vb.Enlist(v.ctx, quorumList+" of others"); err != nil || other.Votes {
			v.Errorf("Enlist for another quorum at a node that serves none: %+v, %v", other, err)
		}
	}
	peer, err := v.vb.Enlist(v.ctx, quorumList)
	if err != nil {
		v.Fatalf("Enlist: %v", err)
	}
	if membership.Store == "" || membership.Store != peer.Store {
		v.Errorf("one store calls itself %q and %q: two names of it would have two votes", membership.Store, peer.Store)
	}
	if !membership.Votes {
		if _, err := v.a.Enter(v.ctx, withoutQueue(v.claim())); !errors.Is(err, driver.ErrNoVote) {
			v.Errorf("Enter at a node that does not vote: %v, not ErrNoVote", err)
		}
	}
	high, epoch := v.mark()
	if err := v.va.Rejoin(v.ctx, high+10, epoch+1); err != nil {
		v.Fatalf("Rejoin: %v", err)
	}
	if h, e := v.mark(); h < high+10 || e != epoch+1 {
		v.Errorf("after Rejoin with mark %d and epoch %d the node has %d and %d", high+10, epoch+1, h, e)
	}
	if err := v.va.Rejoin(v.ctx, 0, epoch+1); !errors.Is(err, driver.ErrConflict) {
		v.Errorf("Rejoin in an epoch that has begun: %v, not ErrConflict", err)
	}
	if err := v.vb.Rejoin(v.ctx, 0, epoch+2); !errors.Is(err, driver.ErrConflict) {
		v.Errorf("Rejoin of a node whose epoch another has raised since this session's Enlist: %v, not ErrConflict", err)
	}
	if _, err := v.vb.Enlist(v.ctx, quorumList+" of others"); !errors.Is(err, driver.ErrDenied) {
		v.Errorf("Enlist for another quorum: %v, not ErrDenied", err)
	}
	if membership, err := v.vb.Enlist(v.ctx, quorumList); err != nil || !membership.Votes {
		v.Errorf("Enlist after Rejoin: %+v, %v", membership, err)
	}
	return true
}

// proposes checks that the token is the proposed one where that is allowed, and
// that a proposal far in the future does not raise the mark.
func (v *quorumCase) proposes() {
	v.Helper()
	high, epoch := v.mark()
	c := withoutQueue(v.claim())
	c.Propose = high + 7
	st := v.a.mustHold(c)
	if st.Token != high+7 || st.Epoch != epoch {
		v.Errorf("token %d in epoch %d; the mark was %d, %d was proposed in epoch %d", st.Token, st.Epoch, high, c.Propose, epoch)
	}
	v.a.mustLeave(c)
	wild := withoutQueue(v.claim())
	wild.Propose = 1<<54 + 1
	if st := v.a.mustHold(wild); st.Token >= wild.Propose || st.Token <= high+7 {
		v.Errorf("token %d for a proposal far in the future", st.Token)
	}
	v.a.mustLeave(wild)
}

func (v *quorumCase) confirm(by driver.Voter, c driver.Claim, granted, token uint64) bool {
	v.Helper()
	ok, err := by.Confirm(v.ctx, c, granted, token)
	if err != nil {
		v.Fatalf("Confirm: %v", err)
	}
	return ok
}

func (v *quorumCase) confirms() {
	v.Helper()
	c := withoutQueue(v.claim())
	st := v.a.mustHold(c)
	far := st.Token + 1000
	if v.confirm(v.va, c, st.Token+1, far) || v.confirm(v.va, nextTry(c), st.Token, far) {
		v.Error("confirmed a grant of another value or try")
	}
	other := c
	other.ID = newID()
	if v.confirm(v.vb, other, st.Token, far) {
		v.Error("confirmed a claim that is not there")
	}
	for time := range 2 {
		if !v.confirm(v.va, c, st.Token, far) {
			v.Errorf("a grant that stands was confirmed %d times and then no more", time)
		}
	}
	if high, _ := v.mark(); high < far {
		v.Errorf("mark %d after %d was confirmed", high, far)
	}
	if again := v.a.mustHold(c); again.Token != st.Token {
		v.Errorf("a repeated Enter was granted %d, first %d: Confirm is about the granted value", again.Token, st.Token)
	}
	for _, e := range v.line() {
		if e.ID == c.ID && e.Fence != far {
			v.Errorf("List shows token %d of a claim that was confirmed with %d", e.Fence, far)
		}
	}
	v.a.mustLeave(c)
	if v.confirm(v.va, c, st.Token, far+1) {
		v.Error("confirmed a claim that was left")
	}
	c = withoutQueue(v.claim())
	if after := v.b.mustHold(c); after.Token <= far {
		v.Errorf("token %d after %d was confirmed", after.Token, far)
	}
	v.b.mustLeave(c)
	if v.confirm(v.vb, c, 0, far+2) {
		v.Error("confirmed nothing at all")
	}
}

// confirmsReaders checks that a node confirms a token to only one of several
// readers.
func (v *quorumCase) confirmsReaders() {
	v.Helper()
	one, two := withoutQueue(v.claimOf(1, driver.All)), withoutQueue(v.claimOf(1, driver.All))
	first, second := v.a.mustHold(one), v.b.mustHold(two)
	if v.confirm(v.va, one, first.Token, second.Token) {
		v.Errorf("confirmed one reader's token to another reader")
	}
	if !v.confirm(v.va, one, first.Token, second.Token+5) || v.confirm(v.vb, two, second.Token, second.Token+5) {
		v.Errorf("one token was confirmed to neither or to both of two readers")
	}
	if !v.confirm(v.vb, two, second.Token, second.Token) {
		v.Errorf("a reader's own token is not confirmed")
	}
	v.a.mustLeave(one)
	v.b.mustLeave(two)
}

// letsIn checks that a claim which waited has a token above what was confirmed meanwhile.
func (v *quorumCase) letsIn() {
	v.Helper()
	if !v.can.Queue {
		return
	}
	for _, next := range []driver.Claim{v.writer(), v.reader()} {
		c := withoutQueue(v.writer())
		st := v.a.mustHold(c)
		v.b.mustWait(next)
		far := st.Token + 1000
		if !v.confirm(v.va, c, st.Token, far) {
			v.Error("a grant that stands was not confirmed")
		}
		v.a.mustLeave(c)
		in := v.b.mustHold(next)
		if in.Token <= far {
			v.Errorf("a claim that waited was let in with token %d, after %d was confirmed", in.Token, far)
		}
		if !v.confirm(v.vb, next, in.Token, in.Token) {
			v.Error("the grant of a claim that waited is not confirmed")
		}
		v.b.mustLeave(next)
	}
}

// raisesTheEpoch checks that grants of an earlier epoch are no longer confirmed.
func (v *quorumCase) raisesTheEpoch() {
	v.Helper()
	var c driver.Claim
	for _, c = range []driver.Claim{withoutQueue(v.claim()), withoutQueue(v.claimOf(1, driver.All))} {
		st := v.a.mustHold(c)
		_, epoch := v.mark()
		if err := v.vb.Rejoin(v.ctx, 0, epoch+1); err != nil {
			v.Fatalf("Rejoin: %v", err)
		}
		if v.confirm(v.va, c, st.Token, st.Token+1) {
			v.Errorf("confirmed a grant of an earlier epoch to a claim of %d of %d", c.Need, c.Limit)
		}
		if out := v.a.mustBeat(c); !out[0].Held {
			v.Errorf("a new epoch ended a hold: %+v", out[0])
		}
		v.a.mustLeave(c)
	}
	ended, cancel := context.WithDeadline(v.ctx, time.Now().Add(-time.Second))
	defer cancel()
	if _, err := v.va.Confirm(ended, c, 1, 2); err == nil {
		v.Error("Confirm with an ended ctx has no error")
	}
}
