package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxPending bounds the calls that a node may owe one session an answer to once it
// has not answered for a while: it must not gather goroutines without end. A node
// that answers takes as many as come.
const maxPending = 256

// A seat is a session's place at one node. It is opened by the first call that
// gets through, and again after the node has ended it.
type seat struct {
	node    Node
	options driver.SessionOptions
	list    string
	meet    func(store string) error // refuses a store that has another seat
	opening chan struct{}            // holds one element while somebody opens
	at      atomic.Pointer[place]
	pending atomic.Int32
	calls   sync.WaitGroup // the same
	heard   atomic.Int64   // when it last answered, or was first asked, unix ns
	late    atomic.Bool    // its last answer, or that it still owes, took longer than soon
	owes    atomic.Int64   // since when it has been asked and has answered nothing, unix ns; 0: it has
}

// A place is an open session at a node.
type place struct {
	driver.Session
	voter driver.Voter
}

func newSeat(n Node, o driver.SessionOptions, list string, meet func(store string) error) *seat {
	return &seat{node: n, options: o, list: list, meet: meet, opening: make(chan struct{}, 1)}
}

// reach returns the open session at the node.
func (k *seat) reach(ctx context.Context) (*place, error) {
	if p := k.at.Load(); p != nil {
		return p, nil
	}
	select {
	case k.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-k.opening }()
	if p := k.at.Load(); p != nil {
		return p, nil
	}
	in, err := k.node.Engine.Open(ctx, k.options)
	if err != nil {
		return nil, err
	}
	voter, ok := in.(driver.Voter)
	if !ok {
		err = fmt.Errorf("it cannot vote: %w", driver.ErrUnsupported)
	} else {
		var roll driver.Membership
		if roll, err = voter.Enlist(ctx, k.list); err == nil {
			err = k.meet(roll.Store)
		}
	}
	if err != nil {
		return nil, driver.Join(err, in.Close(ctx))
	}
	p := &place{in, voter}
	k.at.Store(p)
	return p, nil
}

// call makes one call at the node and returns its error in the node's name.
func (k *seat) call(ctx context.Context, f func(context.Context, *place) error) error {
	now := time.Now().UnixNano()
	k.heard.CompareAndSwap(0, now)
	if k.pending.Add(1) > maxPending && now-k.heard.Load() > int64(limit(k.options.TTL)) {
		k.pending.Add(-1)
		return k.fault(fmt.Errorf("%d calls are unanswered: %w", maxPending, driver.ErrUnreachable))
	}
	defer k.pending.Add(-1)
	k.owes.CompareAndSwap(0, now)
	p, err := k.reach(ctx)
	if err == nil {
		err = f(ctx, p)
	}
	end := time.Now().UnixNano()
	if ctx.Err() == nil {
		k.heard.Store(end)
		k.owes.Store(0) // those that are under way as well are not waited for yet
	}
	if late := end-now > int64(soon); late != k.late.Load() {
		k.late.Store(late)
	}
	return k.fault(err)
}

// silent reports whether the node has been asked and has answered nothing for as
// long as somebody waits who has other answers.
func (k *seat) silent() bool {
	since := k.owes.Load()
	return since != 0 && time.Now().UnixNano()-since > int64(tick(k.options.TTL))
}

// vacate ends the session at the node, and so all that it has in line there, once the
// calls that are under way have come back: one of them may be opening it. Claims that
// the session did not enter are given back one by one.
func (k *seat) vacate(ctx context.Context, strange []driver.Claim) error {
	k.calls.Wait()
	p := k.at.Load()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit(k.options.TTL))
	defer cancel()
	for _, c := range strange {
		_ = p.Leave(ctx, c) // what is not given back expires
	}
	err := p.Close(ctx)
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return k.fault(err)
}

// drop forgets a session that the node has ended.
func (k *seat) drop(ctx context.Context, p *place) {
	if p != nil && k.at.CompareAndSwap(p, nil) {
		_ = p.Close(ctx) // it has ended; this frees what the client keeps of it
	}
}

// fault names the node. ErrGone is about the node's claim or session, ErrLimit
// and the like about the claim, so they are kept; a caller that passes errors on
// hides ErrGone, see hide.
func (k *seat) fault(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return &nodeError{k.node.Name, err}
}

// A nodeError is what went wrong at one node.
type nodeError struct {
	node string
	err  error
}

func (e *nodeError) Error() string { return e.node + ": " + e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }

// hide takes from an error what says that a node's session is gone: the
// quorum's own goes on.
func hide(err error) error {
	if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrNoVote) {
		return errors.New(err.Error())
	}
	return err
}

// limit bounds a call at one node, whatever its client's own settings are. The
// majority is not kept waiting by it, only those who need this node.
func limit(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 50*time.Millisecond), 2*time.Second)
}

// tick is for how long a node that has not answered is waited for where others
// have, and refuse.
func tick(ttl time.Duration) time.Duration { return limit(ttl) / 8 }

// drift is what clocks may differ by over a lease.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
