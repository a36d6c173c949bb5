package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// LoseReplies returns an engine that carries out every call but loses one reply in
// ten, at random: the caller gets driver.ErrUnreachable and cannot tell what
// happened. For the same sequence of calls, the same seed loses the same replies.
// The engine has the optional interfaces that e has.
//
// If the reply to Open is lost, nobody has the session, so it is closed at once,
// even if the caller's ctx has ended. Notices (Lost, Watch) are never lost.
func LoseReplies(e driver.Engine, seed uint64) driver.Engine {
	l := &lossyEngine{Engine: e, rand: rand.New(rand.NewPCG(seed, 0))}
	records, hasRecords := e.(driver.Records)
	watcher, hasWatcher := e.(driver.Watcher)
	r := lossyRecords{records, l}
	switch {
	case hasRecords && hasWatcher:
		return struct {
			*lossyEngine
			driver.Records
			driver.Watcher
		}{l, r, watcher}
	case hasRecords:
		return struct {
			*lossyEngine
			driver.Records
		}{l, r}
	case hasWatcher:
		return struct {
			*lossyEngine
			driver.Watcher
		}{l, watcher}
	}
	return l
}

type lossyEngine struct {
	driver.Engine
	mu   sync.Mutex // guards rand
	rand *rand.Rand
}

// lost decides whether this reply is lost. It is called once per call.
func (l *lossyEngine) lost(call string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rand.IntN(10) > 0 {
		return nil
	}
	return fmt.Errorf("the reply to %s was lost: %w", call, driver.ErrUnreachable)
}

func (l *lossyEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := l.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.lost("Open"); err != nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
		defer cancel()
		_ = s.Close(call) // its outcome is as unknown as the session's
		return nil, err
	}
	ls := &lossySession{s, l}
	multi, hasMulti := s.(driver.Multi)
	voter, hasVoter := s.(driver.Voter)
	m, v := lossyMulti{multi, l}, lossyVoter{voter, l}
	switch {
	case hasMulti && hasVoter:
		return struct {
			*lossySession
			driver.Multi
			driver.Voter
		}{ls, m, v}, nil
	case hasMulti:
		return struct {
			*lossySession
			driver.Multi
		}{ls, m}, nil
	case hasVoter:
		return struct {
			*lossySession
			driver.Voter
		}{ls, v}, nil
	}
	return ls, nil
}

func (l *lossyEngine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	if err := l.lost("List"); err != nil {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, err) }
	}
	return l.Engine.List(ctx, prefix)
}

func (l *lossyEngine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := l.lost("Line"); err != nil {
		return nil, err
	}
	return l.Engine.Line(ctx, name)
}

func (l *lossyEngine) Evict(ctx context.Context, e driver.Entry) error {
	err := l.Engine.Evict(ctx, e)
	if lost := l.lost("Evict"); lost != nil {
		return lost
	}
	return err
}

type lossySession struct {
	driver.Session
	l *lossyEngine
}

// unwrapped returns the engine's own session.
func unwrapped(s driver.Session) driver.Session {
	if l, ok := s.(interface{ unwrap() driver.Session }); ok {
		return l.unwrap()
	}
	return s
}

func (s *lossySession) unwrap() driver.Session { return s.Session }

func (s *lossySession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	st, err := s.Session.Enter(ctx, c)
	if lost := s.l.lost("Enter"); lost != nil {
		return driver.Standing{}, lost
	}
	return st, err
}

func (s *lossySession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	st, err := s.Session.Await(ctx, c, last)
	if lost := s.l.lost("Await"); lost != nil && ctx.Err() == nil {
		return driver.Standing{}, lost
	}
	return st, err
}

func (s *lossySession) Leave(ctx context.Context, c driver.Claim) error {
	err := s.Session.Leave(ctx, c)
	if lost := s.l.lost("Leave"); lost != nil {
		return lost
	}
	return err
}

func (s *lossySession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	if lost := s.l.lost("Beat"); lost != nil {
		_ = s.Session.Beat(ctx, live, make([]driver.Standing, len(out))) // the answer is the lost reply
		return lost
	}
	return s.Session.Beat(ctx, live, out)
}

func (s *lossySession) Close(ctx context.Context) error {
	err := s.Session.Close(ctx)
	if lost := s.l.lost("Close"); lost != nil {
		return lost
	}
	return err
}

type lossyMulti struct {
	driver.Multi
	l *lossyEngine
}

func (m lossyMulti) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	st, err := m.Multi.EnterAll(ctx, cs)
	if lost := m.l.lost("EnterAll"); lost != nil {
		return nil, lost
	}
	return st, err
}

type lossyVoter struct {
	driver.Voter
	l *lossyEngine
}

func (v lossyVoter) Confirm(ctx context.Context, c driver.Claim, granted, token uint64) (bool, error) {
	ok, err := v.Voter.Confirm(ctx, c, granted, token)
	if lost := v.l.lost("Confirm"); lost != nil {
		return false, lost
	}
	return ok, err
}

type lossyRecords struct {
	driver.Records
	l *lossyEngine
}

func (r lossyRecords) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	value, version, err := r.Records.Load(ctx, key)
	if lost := r.l.lost("Load"); lost != nil {
		return nil, 0, lost
	}
	return value, version, err
}

func (r lossyRecords) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	version, err := r.Records.Store(ctx, key, value, ifVersion, keep)
	if lost := r.l.lost("Store"); lost != nil {
		return 0, lost
	}
	return version, err
}

func (s *session) retryLostReply(ctx context.Context, call func() error) error {
	return retryLostReply(ctx, s.f.losesReplies, call)
}

// retryLostReply repeats a call whose reply the suite itself dropped. An
// unreachable store fails the case.
func retryLostReply(ctx context.Context, lossy bool, call func() error) error {
	for {
		err := call()
		if !lossy || !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
	}
}
