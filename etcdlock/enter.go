package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// maxToken is the first revision that is too large for a token.
const maxToken = 1 << 55

// maxOps is how many operations a server takes in one transaction, as it comes.
const maxOps = 128

// Enter takes a place in line, and with it the name if nobody is ahead, in one
// transaction. It promises no time: a key lives as long as the session's lease,
// which a put does not prolong.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if err := s.alive(ctx); err != nil {
		return driver.Standing{}, err
	}
	out, err := s.enterAll(ctx, []driver.Claim{c})
	if err != nil {
		return driver.Standing{}, err
	}
	return out[0], nil
}

// EnterAll enters every claim in one transaction, or none. A transaction of the
// server has room for about forty names; more are refused.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, c := range cs {
		if names[c.Name] {
			return nil, fmt.Errorf("%w: two claims on %q in one step", driver.ErrUnsupported, c.Name)
		}
		names[c.Name] = true
	}
	return s.enterAll(ctx, cs)
}

func (s *session) enterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	spots := make([]*spot, len(cs))
	for i, c := range cs {
		p, err := s.seat(ctx, c)
		if errors.Is(err, errLower) {
			out := make([]driver.Standing, len(cs))
			out[i].Gone = true // delivered late; nobody reads this answer
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		spots[i] = p
	}
	return s.join(ctx, spots)
}

// errLower says that a later try of the claim is known.
var errLower = errors.New("a later try is in line")

// seat returns the spot for c, the same one if c is known, and ends a lower try
// of it. Its own session knows them; a first sight of a later try may mean that
// an earlier one stands in line under another session.
func (s *session) seat(ctx context.Context, c driver.Claim) (*spot, error) {
	s.mu.Lock()
	known := s.spots[c.ID]
	if known != nil && known.claim.Try == c.Try && known.left {
		// A beat must not take for a stray what is being entered again. One that is under
		// way may have done so already, and would delete whatever stands at the old key.
		s.giveLocked(known)
		known.left = false
	}
	s.mu.Unlock()
	switch {
	case known == nil && c.Try > 1:
		lower := c
		lower.Try--
		if err := s.search(ctx, lower); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	case known == nil:
	case known.claim.Try == c.Try:
		return known, nil
	case known.claim.Try > c.Try:
		return nil, errLower
	default:
		if err := s.end(ctx, known, c.Try-1); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	}
	return s.newSpot(c), nil
}

// join commits the plans of all spots in one transaction, and again where the
// answer was neither yes nor no: the server then did nothing.
func (s *session) join(ctx context.Context, spots []*spot) ([]driver.Standing, error) {
	// One that does not queue is refused by whoever is there, and must learn it in
	// the same round trip. Those that queue are refused only by what they have done
	// before: there is nothing to ask for, and a smaller transaction is a faster one.
	ask := slices.ContainsFunc(spots, func(p *spot) bool { return !p.claim.Queue })
	plans := make([]plan, len(spots))
	if len(spots) == 1 && !ask {
		plans[0].bold = s.boldly(spots[0])
	}
	for {
		ifs, then := s.compose(spots, plans)
		var reasons []clientv3.Op
		if ask {
			reasons = s.reasons(spots, plans)
		}
		if max(len(ifs), len(then), len(reasons)) > maxOps {
			s.drop(spots)
			return nil, fmt.Errorf("%w: %d names in one step", driver.ErrUnsupported, len(spots))
		}
		sent := time.Now()
		reply, err := s.commit(ctx, ifs, then, reasons)
		if err != nil {
			return nil, s.unjoined(err, sent, spots)
		}
		if reply.Succeeded {
			return s.joined(ctx, spots, plans, reply)
		}
		if plans[0].bold {
			plans[0].bold = false
			s.meet(spots[0], true)
			continue
		}
		if !ask {
			if reply, err = s.why(ctx, s.reasons(spots, plans)); err != nil {
				return nil, s.unjoined(err, sent, spots)
			}
		}
		out, err := s.refused(ctx, spots, plans, reply)
		if err != nil || out != nil {
			return out, err
		}
	}
}

// compose makes one transaction of all plans.
func (s *session) compose(spots []*spot, plans []plan) (ifs []clientv3.Cmp, then []clientv3.Op) {
	for i, p := range spots {
		n := &plans[i]
		n.make(p, s.lease)
		if len(spots) == 1 {
			return n.ifs, n.then
		}
		ifs, then = append(ifs, n.ifs...), append(then, n.then...)
	}
	return ifs, then
}

// reasons are what is to be read if a transaction is refused.
func (s *session) reasons(spots []*spot, plans []plan) (ops []clientv3.Op) {
	for i, p := range spots {
		ops = append(ops, plans[i].reasons(p)...)
	}
	return ops
}

// commit sends a transaction.
func (s *session) commit(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	call, cancel := s.brief(ctx)
	defer cancel()
	reply, err := s.e.client.Txn(call).If(ifs...).Then(then...).Else(els...).Commit()
	return reply, classify(ctx, err)
}

// why asks for the reasons of a refusal afterwards.
func (s *session) why(ctx context.Context, ops []clientv3.Op) (reply *clientv3.TxnResponse, err error) {
	err = s.ask(ctx, func(call context.Context) error {
		reply, err = s.e.client.Txn(call).Then(ops...).Commit()
		return err
	})
	return reply, err
}

// unjoined takes in that a transaction had no answer, or was refused.
func (s *session) unjoined(err error, sent time.Time, spots []*spot) error {
	if untouched(err) {
		s.drop(spots)
	} else {
		s.unsure(sent, spots...)
	}
	return err
}

// drop forgets spots that were not entered.
func (s *session) drop(spots []*spot) {
	for _, p := range spots {
		s.forget(p)
	}
}

// joined reads the answers of a transaction that put every key.
func (s *session) joined(ctx context.Context, spots []*spot, plans []plan, reply *clientv3.TxnResponse) ([]driver.Standing, error) {
	rev, replies := reply.Header.Revision, reply.Responses
	out := make([]driver.Standing, len(spots))
	var fault error
	if rev >= maxToken {
		fault = fmt.Errorf("etcdlock: revision %d is too large for a token", rev)
	}
	for i, p := range spots {
		var mine []*pb.ResponseOp
		mine, replies = replies[:len(plans[i].then)], replies[len(plans[i].then):]
		v := view{count: -1}
		if fault == nil && p.claim.Queue {
			v, fault = p.line.viewOf(p.claim, mine[:plans[i].reads], false)
		}
		s.mu.Lock()
		p.rev, p.left = rev, false
		s.mu.Unlock()
		out[i] = s.standing(p, v)
		out[i].Ahead = int(v.count)
		if len(spots) == 1 && out[i].Held {
			s.meet(p, false)
		}
		if v.vague && fault == nil {
			out[i], fault = s.look(ctx, p, 0)
		}
		if !out[i].Held && fault == nil {
			out[i].Holder, fault = plans[i].holder(p, mine)
		}
	}
	if fault != nil {
		for _, p := range spots {
			_ = s.end(ctx, p, p.claim.Try) // what stays is known here, and the core leaves it again
		}
		return nil, fault
	}
	return out, nil
}

// standing answers for p as v shows it, and remembers it.
func (s *session) standing(p *spot, v view) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.way, p.held = v.way, len(v.way) == 0 && !v.vague
	if p.held {
		p.vigil.close()
		return driver.Standing{Held: true, Ahead: -1, Token: uint64(p.rev)}
	}
	return driver.Standing{Ahead: -1, Pause: shortPause}
}

// A waiter is told of its turn, so that it need only ask, once per TTL, whether it
// would be. The first time comes early, to learn who holds the name, if that could
// not be said when it entered.
const (
	shortPause = 2 * time.Second
	maxPause   = 10 * time.Second
)

func (s *session) longPause() time.Duration { return min(s.ttl, maxPause) }
