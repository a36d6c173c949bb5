package drivertest_test

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// An overridden engine is memlock with some calls replaced.
type overridden struct {
	*memlock.Engine
	stop chan struct{} // ends the goroutines that an override starts

	mu       sync.Mutex // guards sessions and the state of the overrides
	sessions map[string]*overriddenSession

	features func(driver.Features) driver.Features
	open     func(o driver.SessionOptions) driver.SessionOptions
	enter    func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error)
	enterAll func(ctx context.Context, s *overriddenSession, cs []driver.Claim) ([]driver.Standing, error)
	await    func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error)
	leave    func(ctx context.Context, s *overriddenSession, c driver.Claim) error
	leaveAll func(ctx context.Context, s *overriddenSession, cs []driver.Claim, out []error)
	beat     func(ctx context.Context, s *overriddenSession, live []driver.Claim, out []driver.Standing) error
	closeS   func(ctx context.Context, s *overriddenSession) error
	closeE   func() error
	list     func(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error]
	lineOf   func(ctx context.Context, name string) ([]driver.Entry, error)
	evict    func(ctx context.Context, x driver.Entry) error
	load     func(ctx context.Context, key string) ([]byte, uint64, error)
	store    func(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error)
	watch    func(ctx context.Context, name string) (<-chan struct{}, error)
}

func (engine *overridden) Features() driver.Features {
	if engine.features != nil {
		return engine.features(engine.Engine.Features())
	}
	return engine.Engine.Features()
}

func (engine *overridden) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	asked := o
	if engine.open != nil {
		o = engine.open(o)
	}
	s, err := engine.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	bs := &overriddenSession{Session: s, engine: engine, asked: asked}
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if engine.sessions == nil {
		engine.sessions = map[string]*overriddenSession{}
	}
	engine.sessions[o.ID] = bs
	return bs, nil
}

func (engine *overridden) opened(id string) *overriddenSession {
	engine.mu.Lock()
	defer engine.mu.Unlock()
	return engine.sessions[id]
}

func (engine *overridden) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	if engine.list != nil {
		return engine.list(ctx, prefix)
	}
	return engine.Engine.List(ctx, prefix)
}

func (engine *overridden) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if engine.lineOf != nil {
		return engine.lineOf(ctx, name)
	}
	return engine.Engine.Line(ctx, name)
}

func (engine *overridden) Evict(ctx context.Context, x driver.Entry) error {
	if engine.evict != nil {
		return engine.evict(ctx, x)
	}
	return engine.Engine.Evict(ctx, x)
}

func (engine *overridden) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if engine.load != nil {
		return engine.load(ctx, key)
	}
	return engine.Engine.Load(ctx, key)
}

func (engine *overridden) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if engine.store != nil {
		return engine.store(ctx, key, value, ifVersion, keep)
	}
	return engine.Engine.Store(ctx, key, value, ifVersion, keep)
}

func (engine *overridden) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	if engine.watch != nil {
		return engine.watch(ctx, name)
	}
	return engine.Engine.Watch(ctx, name)
}

func (engine *overridden) Close() error {
	if engine.closeE != nil {
		return engine.closeE()
	}
	return engine.Engine.Close()
}

// line returns the claims of one name.
func (engine *overridden) line(name string) []driver.Entry {
	var all []driver.Entry
	for e := range engine.Engine.List(context.Background(), name) {
		if e.Name == name {
			all = append(all, e)
		}
	}
	return all
}

type overriddenSession struct {
	driver.Session
	engine *overridden
	asked  driver.SessionOptions
}

func (s *overriddenSession) TTL() time.Duration { return s.asked.TTL }

func (s *overriddenSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	if s.engine.enter != nil {
		return s.engine.enter(ctx, s, c)
	}
	return s.Session.Enter(ctx, c)
}

func (s *overriddenSession) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if s.engine.enterAll != nil {
		return s.engine.enterAll(ctx, s, cs)
	}
	return s.Session.(driver.Multi).EnterAll(ctx, cs)
}

func (s *overriddenSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if s.engine.await != nil {
		return s.engine.await(ctx, s, c, last)
	}
	return s.Session.Await(ctx, c, last)
}

func (s *overriddenSession) Leave(ctx context.Context, c driver.Claim) error {
	if s.engine.leave != nil {
		return s.engine.leave(ctx, s, c)
	}
	return s.Session.Leave(ctx, c)
}

func (s *overriddenSession) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if s.engine.leaveAll != nil {
		s.engine.leaveAll(ctx, s, cs, out)
		return
	}
	for i, c := range cs {
		out[i] = s.Leave(ctx, c)
	}
}

func (s *overriddenSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if s.engine.beat != nil {
		return s.engine.beat(ctx, s, live, out)
	}
	return s.Session.Beat(ctx, live, out)
}

func (s *overriddenSession) Close(ctx context.Context) error {
	if s.engine.closeS != nil {
		return s.engine.closeS(ctx, s)
	}
	return s.Session.Close(ctx)
}
