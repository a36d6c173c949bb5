package sim

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var (
	_ driver.Engine  = (*path)(nil)
	_ driver.Records = (*path)(nil)
	_ driver.Watcher = (*path)(nil)
	_ driver.Multi   = (*session)(nil)
	_ driver.Voter   = (*session)(nil)
)

// none is the result of calls that have none.
type none = struct{}

func (p *path) Features() driver.Features { return p.node.mem.Features() }
func (p *path) Close() error              { return nil }

func (p *path) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	born := uint64(p.w.now())
	in, err := send(ctx, p, "open", o.TTL.String(), 0, func(ctx context.Context) (driver.Session, error) {
		p.w.mu.Lock()
		p.w.owners[o.ID] = p.proc
		p.w.mu.Unlock()
		return p.node.mem.Open(ctx, o)
	})
	if err != nil {
		return nil, err
	}
	return &session{in, in.(driver.Voter), p, born}, nil
}

func (p *path) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	return send(ctx, p, "line", name, by(ctx), func(ctx context.Context) ([]driver.Entry, error) { return p.node.mem.Line(ctx, name) })
}

func (p *path) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		all, err := send(ctx, p, "list", prefix, by(ctx), func(ctx context.Context) (all []driver.Entry, err error) {
			for e, err := range p.node.mem.List(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				all = append(all, e)
			}
			return all, nil
		})
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (p *path) Evict(ctx context.Context, e driver.Entry) error {
	_, err := send(ctx, p, "evict", e.Name, by(ctx), func(ctx context.Context) (none, error) { return none{}, p.node.mem.Evict(ctx, e) })
	return err
}

type record struct {
	value   []byte
	version uint64
}

func (p *path) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	r, err := send(ctx, p, "load", key, by(ctx), func(ctx context.Context) (r record, err error) {
		r.value, r.version, err = p.node.mem.Load(ctx, key)
		return r, err
	})
	return r.value, r.version, err
}

func (p *path) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	return send(ctx, p, "store", key, by(ctx), func(ctx context.Context) (uint64, error) {
		version, err := p.node.mem.Store(ctx, key, value, ifVersion, keep)
		if err == nil {
			p.w.stored(key, value)
		}
		return version, err
	})
}

// Watch forwards notices of departures. Those that come while the way is cut are lost, and
// the watch ends when the node restarts.
func (p *path) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	up := p.connection()
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(up, cancel)
	in, err := send(ctx, p, "watch", name, 0, func(context.Context) (<-chan struct{}, error) { return p.node.mem.Watch(inner, name) })
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	out := make(chan struct{}, 1)
	p.w.calls.Go(func() {
		defer close(out)
		defer cancel()
		defer stop()
		for range in {
			f := p.fate("notice", name, 0)
			if _, back, _ := p.state(); back || f.loseReply || !travel(inner, f.back) {
				continue
			}
			p.proc.runs(f.key)
			select {
			case out <- struct{}{}:
			default:
			}
		}
	})
	return out, nil
}

// connection returns a context that ends when the node restarts.
func (p *path) connection() context.Context {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.node.session
}

// A session is one over a path.
type session struct {
	driver.Session
	voter driver.Voter
	p     *path
	born  uint64 // when it was opened: what tells sessions apart
}

func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	return send(ctx, s.p, "enter", c.Name, s.p.w.claimant(ctx, c.ID), func(ctx context.Context) (driver.Standing, error) { return s.Session.Enter(ctx, c) })
}

func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	cs = slices.Clone(cs)
	who := s.p.w.claimant(ctx, cs[0].ID)
	for _, c := range cs[1:] {
		s.p.w.claimant(ctx, c.ID)
	}
	return send(ctx, s.p, "enter", "all", who, func(ctx context.Context) ([]driver.Standing, error) {
		return s.Session.(driver.Multi).EnterAll(ctx, cs)
	})
}

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	_, err := send(ctx, s.p, "leave", c.Name, s.p.w.claimant(ctx, c.ID), func(ctx context.Context) (none, error) { return none{}, s.Session.Leave(ctx, c) })
	return err
}

func (s *session) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	live = slices.Clone(live)
	got, err := send(ctx, s.p, "beat", s.TTL().String(), s.born, func(ctx context.Context) ([]driver.Standing, error) {
		got := make([]driver.Standing, len(live))
		return got, s.Session.Beat(ctx, live, got)
	})
	copy(out, got)
	return err
}

func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	who := mix(s.p.w.claimant(ctx, c.ID), uint64(s.p.w.now()))
	s.p.proc.runs(mix(text("await"), text(c.Name), who))
	f := s.p.fate("await", c.Name, who)
	return carry(ctx, s.p, f, func() (driver.Standing, error) {
		up := s.p.connection()
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(up, cancel)()
		st, err := s.Session.Await(inner, c, last)
		if up.Err() != nil && ctx.Err() == nil {
			return driver.Standing{}, driver.ErrUnreachable
		}
		return st, err
	})
}

// Close and Open come once and in order: they are the connection itself.
func (s *session) Close(ctx context.Context) error {
	_, err := send(ctx, s.p, "close", s.TTL().String(), s.born, func(ctx context.Context) (none, error) { return none{}, s.Session.Close(ctx) })
	return err
}

func (s *session) Enlist(ctx context.Context, list string) (driver.Membership, error) {
	return send(ctx, s.p, "enlist", "", s.born, func(ctx context.Context) (driver.Membership, error) { return s.voter.Enlist(ctx, list) })
}

func (s *session) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	return send(ctx, s.p, "confirm", c.Name, s.p.w.claimant(ctx, c.ID), func(ctx context.Context) (bool, error) { return s.voter.Confirm(ctx, c, granted, token) })
}

func (s *session) Mark(ctx context.Context) (uint64, uint64, error) {
	m, err := send(ctx, s.p, "mark", "", s.born, func(ctx context.Context) (m [2]uint64, err error) {
		m[0], m[1], err = s.voter.Mark(ctx)
		return m, err
	})
	return m[0], m[1], err
}

func (s *session) Rejoin(ctx context.Context, high, epoch uint64) error {
	_, err := send(ctx, s.p, "rejoin", "", s.born, func(ctx context.Context) (none, error) { return none{}, s.voter.Rejoin(ctx, high, epoch) })
	return err
}
