package quorum_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// A network is between clients and nodes, in a synctest bubble: calls take time, are
// lost before or after the node received them, or are delivered twice.
type network struct {
	nodes []*memlock.Engine
	delay time.Duration // the longest, each way
	loss  float64       // probability that a request, or a reply, is lost
	twice float64       // probability that an Enter is delivered again later

	mu   sync.Mutex // guards what follows
	rand *rand.Rand
	down []bool // by node: requests and replies are lost
	late sync.WaitGroup
}

func newNetwork(n int, seed uint64) *network {
	w := &network{rand: rand.New(rand.NewPCG(seed, 1)), down: make([]bool, n)}
	for range n {
		w.nodes = append(w.nodes, memlock.New())
	}
	return w
}

// client returns the nodes as one client sees them.
func (w *network) client() (all []quorum.Node) {
	for i, e := range w.nodes {
		all = append(all, quorum.Node{Name: string(rune('a' + i)), Engine: &link{net: w, i: i, node: e}})
	}
	return all
}

// clientWithout returns the nodes as a client sees them that one of them does not answer.
func (w *network) clientWithout(i int) []quorum.Node {
	all := w.client()
	all[i].Engine.(*link).broken = true
	return all
}

func (w *network) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p > 0 && w.rand.Float64() < p
}

func (w *network) latency() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.delay == 0 {
		return 0
	}
	return time.Duration(w.rand.Int64N(int64(w.delay)))
}

func (w *network) cut(i int, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[i] = down
}

func (w *network) isDown(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down[i]
}

// travel delivers one message of a call. If the message is lost, it returns when ctx
// ends, as a client does that gets no answer.
func (w *network) travel(ctx context.Context, i int) error {
	if d := w.latency(); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if w.isDown(i) || w.chance(w.loss) {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// A link is one client's connection to one node.
type link struct {
	net    *network
	i      int
	node   *memlock.Engine
	broken bool
}

func (l *link) Features() driver.Features { return l.node.Features() }
func (l *link) Close() error              { return nil }

func (l *link) call(ctx context.Context, f func(context.Context) error) error {
	if l.broken {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := l.net.travel(ctx, l.i); err != nil {
		return err
	}
	err := f(context.WithoutCancel(ctx))
	return errors.Join(err, l.net.travel(ctx, l.i))
}

func (l *link) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	var s driver.Session
	err := l.call(ctx, func(ctx context.Context) (err error) {
		s, err = l.node.Open(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &linkSession{Session: s, Voter: s.(driver.Voter), l: l}, nil
}

func (l *link) Line(ctx context.Context, name string) (line []driver.Entry, err error) {
	err = l.call(ctx, func(ctx context.Context) (err error) {
		line, err = l.node.Line(ctx, name)
		return err
	})
	return line, err
}

func (l *link) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := l.net.travel(ctx, l.i); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for e, err := range l.node.List(ctx, prefix) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (l *link) Evict(ctx context.Context, e driver.Entry) error {
	return l.call(ctx, func(ctx context.Context) error { return l.node.Evict(ctx, e) })
}

func (l *link) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if l.broken || l.net.isDown(l.i) {
		return nil, driver.ErrUnreachable
	}
	return l.node.Watch(ctx, name)
}

// A linkSession is a session over a link.
type linkSession struct {
	driver.Session
	driver.Voter
	l *link
}

func (s *linkSession) Enter(ctx context.Context, c driver.Claim) (st driver.Standing, err error) {
	if s.l.net.chance(s.l.net.twice) {
		s.l.net.late.Go(func() { // a client library or a network that repeats a request
			time.Sleep(4 * s.l.net.latency())
			_, _ = s.Session.Enter(context.Background(), c)
		})
	}
	err = s.l.call(ctx, func(ctx context.Context) (err error) {
		st, err = s.Session.Enter(ctx, c)
		return err
	})
	return st, err
}

func (s *linkSession) Leave(ctx context.Context, c driver.Claim) error {
	return s.l.call(ctx, func(ctx context.Context) error { return s.Session.Leave(ctx, c) })
}

func (s *linkSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	got := make([]driver.Standing, len(out))
	err := s.l.call(ctx, func(ctx context.Context) error { return s.Session.Beat(ctx, live, got) })
	if err == nil {
		copy(out, got)
	}
	return err
}

func (s *linkSession) Enlist(ctx context.Context, list string) (r driver.Membership, err error) {
	err = s.l.call(ctx, func(ctx context.Context) (err error) {
		r, err = s.Voter.Enlist(ctx, list)
		return err
	})
	return r, err
}

func (s *linkSession) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (ok bool, err error) {
	err = s.l.call(ctx, func(ctx context.Context) (err error) {
		ok, err = s.Voter.Confirm(ctx, c, granted, token)
		return err
	})
	return ok, err
}

func (s *linkSession) Mark(ctx context.Context) (high, epoch uint64, err error) {
	err = s.l.call(ctx, func(ctx context.Context) (err error) {
		high, epoch, err = s.Voter.Mark(ctx)
		return err
	})
	return high, epoch, err
}

func (s *linkSession) Rejoin(ctx context.Context, high, epoch uint64) error {
	return s.l.call(ctx, func(ctx context.Context) error { return s.Voter.Rejoin(ctx, high, epoch) })
}
