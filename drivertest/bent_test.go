package drivertest_test

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A bent engine is memlock with some of its calls replaced, to break one law.
type bent struct {
	*memlock.Engine
	stop chan struct{} // of goroutines that a mutant starts

	mu       sync.Mutex // guards the sessions, and what a mutant keeps
	sessions map[string]*bentSession

	features func(driver.Features) driver.Features
	open     func(o driver.SessionOptions) driver.SessionOptions
	enter    func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error)
	enterAll func(ctx context.Context, s *bentSession, cs []driver.Claim) ([]driver.Standing, error)
	await    func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error)
	leave    func(ctx context.Context, s *bentSession, c driver.Claim) error
	beat     func(ctx context.Context, s *bentSession, live []driver.Claim, out []driver.Standing) error
	closeS   func(ctx context.Context, s *bentSession) error
	closeE   func() error
	list     func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error]
	lineOf   func(ctx context.Context, name string) ([]driver.Entry, error)
	evict    func(ctx context.Context, x driver.Entry) error
	load     func(ctx context.Context, key string) ([]byte, uint64, error)
	store    func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error)
	watch    func(ctx context.Context, name string) (<-chan struct{}, error)
}

func (b *bent) Features() driver.Features {
	if b.features != nil {
		return b.features(b.Engine.Features())
	}
	return b.Engine.Features()
}

func (b *bent) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	asked := o
	if b.open != nil {
		o = b.open(o)
	}
	s, err := b.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	bs := &bentSession{Session: s, b: b, asked: asked}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions == nil {
		b.sessions = map[string]*bentSession{}
	}
	b.sessions[o.ID] = bs
	return bs, nil
}

func (b *bent) opened(id string) *bentSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

func (b *bent) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	if b.list != nil {
		return b.list(ctx, prefix)
	}
	return b.Engine.List(ctx, prefix)
}

func (b *bent) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if b.lineOf != nil {
		return b.lineOf(ctx, name)
	}
	return b.Engine.Line(ctx, name)
}

func (b *bent) Evict(ctx context.Context, x driver.Entry) error {
	if b.evict != nil {
		return b.evict(ctx, x)
	}
	return b.Engine.Evict(ctx, x)
}

func (b *bent) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if b.load != nil {
		return b.load(ctx, key)
	}
	return b.Engine.Load(ctx, key)
}

func (b *bent) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if b.store != nil {
		return b.store(ctx, key, value, ifVersion, keep)
	}
	return b.Engine.Store(ctx, key, value, ifVersion, keep)
}

func (b *bent) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if b.watch != nil {
		return b.watch(ctx, name)
	}
	return b.Engine.Watch(ctx, name)
}

func (b *bent) Close() error {
	if b.closeE != nil {
		return b.closeE()
	}
	return b.Engine.Close()
}

// line returns the claims of one name.
func (b *bent) line(name string) []driver.Entry {
	var all []driver.Entry
	for e := range b.Engine.List(context.Background(), name) {
		if e.Name == name {
			all = append(all, e)
		}
	}
	return all
}

type bentSession struct {
	driver.Session
	b     *bent
	asked driver.SessionOptions
}

func (s *bentSession) TTL() time.Duration { return s.asked.TTL }

func (s *bentSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if s.b.enter != nil {
		return s.b.enter(ctx, s, c)
	}
	return s.Session.Enter(ctx, c)
}

func (s *bentSession) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if s.b.enterAll != nil {
		return s.b.enterAll(ctx, s, cs)
	}
	return s.Session.(driver.Multi).EnterAll(ctx, cs)
}

func (s *bentSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if s.b.await != nil {
		return s.b.await(ctx, s, c, last)
	}
	return s.Session.Await(ctx, c, last)
}

func (s *bentSession) Leave(ctx context.Context, c driver.Claim) error {
	if s.b.leave != nil {
		return s.b.leave(ctx, s, c)
	}
	return s.Session.Leave(ctx, c)
}

func (s *bentSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if s.b.beat != nil {
		return s.b.beat(ctx, s, live, out)
	}
	return s.Session.Beat(ctx, live, out)
}

func (s *bentSession) Close(ctx context.Context) error {
	if s.b.closeS != nil {
		return s.b.closeS(ctx, s)
	}
	return s.Session.Close(ctx)
}
