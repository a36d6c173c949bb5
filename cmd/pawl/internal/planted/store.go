package planted

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A store is a memory engine whose calls a bug may replace.
type store struct {
	*memlock.Engine
	bug   bug
	hooks hooks

	mu       sync.Mutex // held during each call but Await, so that what a bug does is one step; guards what follows
	sessions map[string]*session
	minted   uint64 // the last token that mint returned
}

// hooks replace calls of a session; nil: the call is the memory engine's. They are called
// with the store's mutex held.
type hooks struct {
	keep         func(asked time.Duration) time.Duration // how long the store really keeps a claim
	enter        func(s *session, c driver.Claim) (driver.Standing, error)
	look         func(s *session, c driver.Claim) driver.Standing // makes Await poll
	leave        func(s *session, c driver.Claim) error
	beat         func(s *session, live []driver.Claim, out []driver.Standing) error
	token        func(s *session, c driver.Claim, t uint64) uint64 // the token that is shown in place of t
	disconnected func(s *session)
}

func newStore(b bug) *store {
	t := &store{Engine: memlock.New(), bug: b, sessions: map[string]*session{}}
	if b.plant != nil {
		t.hooks = b.plant(t)
	}
	return t
}

func (t *store) close() error { return t.Engine.Close() }

func (t *store) open(ctx context.Context, o driver.SessionOptions) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[o.ID]; s != nil { // repeated
		return s, nil
	}
	kept := o
	if t.hooks.keep != nil {
		kept.TTL = t.hooks.keep(o.TTL)
	}
	m, err := t.Engine.Open(ctx, kept)
	if err != nil {
		return nil, err
	}
	s := &session{memory: m, store: t, id: o.ID, ttl: o.TTL}
	t.sessions[o.ID] = s
	return s, nil
}

func (t *store) session(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[id]
}

// disconnected says that a connection on which s was used has ended.
func (t *store) disconnected(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hooks.disconnected != nil {
		t.hooks.disconnected(s)
	}
}

func (t *store) list(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x, err := range t.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, t.shown(x))
	}
	return all, nil
}

func (t *store) line(ctx context.Context, name string) ([]driver.Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.Line(ctx, name)
	for i := range all {
		all[i] = t.shown(all[i])
	}
	return all, err
}

// shown is an entry with the token that clients see.
func (t *store) shown(x driver.Entry) driver.Entry {
	if s := t.sessions[x.Session]; s != nil && x.Fence != 0 && t.hooks.token != nil {
		x.Fence = t.hooks.token(s, x.Claim, x.Fence)
	}
	return x
}

func (t *store) evict(ctx context.Context, x driver.Entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries(x.Name) {
		if e.ID == x.ID && e.Held && t.shown(e).Fence == x.Fence {
			x.Fence = e.Fence
		}
	}
	return t.Evict(ctx, x)
}

// A session is one of the memory engine's.
type session struct {
	memory driver.Session
	store  *store
	id     string
	ttl    time.Duration // as asked for

	leaked []driver.Claim // claims of a bug that live as long as the session is beaten; guarded by store.mu
	count  uint64         // for a bug; guarded by store.mu
}

// do carries out a request.
func (s *session) do(ctx context.Context, r request) ([]driver.Standing, error) {
	if len(r.Claims) == 0 && r.Op != opBeat && r.Op != opClose {
		return nil, driver.ErrUnsupported
	}
	if r.Op == opAwait {
		st, err := s.await(ctx, r.Claims[0], r.Last)
		return []driver.Standing{st}, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	switch r.Op {
	case opEnter:
		st, err := s.enter(r.Claims[0])
		return []driver.Standing{s.answer(r.Claims[0], st)}, err
	case opEnterAll:
		all, err := s.memory.(driver.Multi).EnterAll(ctx, r.Claims)
		for i := range all {
			all[i] = s.answer(r.Claims[i], all[i])
		}
		return all, err
	case opLeave:
		return nil, s.leave(r.Claims[0])
	case opBeat:
		out := make([]driver.Standing, len(r.Claims))
		err := s.beat(r.Claims, out)
		for i := range out {
			out[i] = s.answer(r.Claims[i], out[i])
		}
		return out, err
	case opClose:
		delete(s.store.sessions, s.id)
		return nil, s.memory.Close(ctx)
	}
	return nil, driver.ErrUnsupported
}

// answer is what the client is told: its own TTL, and the token that is shown.
func (s *session) answer(c driver.Claim, st driver.Standing) driver.Standing {
	if st.Valid > 0 {
		st.Valid = s.ttl
	}
	if s.store.hooks.token != nil && st.Token != 0 {
		st.Token = s.store.hooks.token(s, c, st.Token)
	}
	return st
}

func (s *session) enter(c driver.Claim) (driver.Standing, error) {
	if s.store.hooks.enter != nil {
		return s.store.hooks.enter(s, c)
	}
	return s.memory.Enter(context.Background(), c)
}

func (s *session) leave(c driver.Claim) error {
	if s.store.hooks.leave != nil {
		return s.store.hooks.leave(s, c)
	}
	return s.memory.Leave(context.Background(), c)
}

func (s *session) beat(live []driver.Claim, out []driver.Standing) error {
	if len(s.leaked) > 0 {
		_ = s.memory.Beat(context.Background(), s.leaked, make([]driver.Standing, len(s.leaked))) // an ended session has none
	}
	if s.store.hooks.beat != nil {
		return s.store.hooks.beat(s, live, out)
	}
	return s.memory.Beat(context.Background(), live, out)
}

// pollEvery is how often an Await looks, where a bug has it poll.
const pollEvery = 2 * time.Millisecond

func (s *session) await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	t := s.store
	if t.hooks.look == nil {
		st, err := s.memory.Await(ctx, c, last)
		t.mu.Lock()
		defer t.mu.Unlock()
		return s.answer(c, st), err
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		t.mu.Lock()
		st := s.answer(c, t.hooks.look(s, c))
		t.mu.Unlock()
		if st.Held || st.Gone {
			return st, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return driver.Standing{}, ctx.Err()
		}
	}
}
