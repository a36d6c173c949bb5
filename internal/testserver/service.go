package testserver

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A Service measures how long servers are available by polling them: a poll that
// succeeds counts for its duration, but for at most serviceTick; a poll that fails
// counts for nothing. Limits for clients apply to available servers: an election on
// a stalled machine may take any time.
type Service struct {
	stop func()

	mu     sync.Mutex // guards everything below
	served time.Duration
	alarms map[time.Duration]chan struct{} // closed by add
}

const serviceTick = 250 * time.Millisecond

// Serving measures from now until the end of the test or Stop. ask should need a
// majority of the servers; it gets four ticks of time.
func Serving(t testing.TB, ask func(context.Context) error) *Service {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Service{alarms: map[time.Duration]chan struct{}{}}
	var work sync.WaitGroup
	s.stop = func() { cancel(); work.Wait() }
	work.Go(func() {
		for ctx.Err() == nil {
			s.add(measureOnce(ctx, ask))
		}
	})
	t.Cleanup(s.stop)
	return s
}

// measureOnce polls once, pauses a little, and returns the time that counts.
func measureOnce(ctx context.Context, ask func(context.Context) error) time.Duration {
	begun := time.Now()
	call, done := context.WithTimeout(ctx, 4*serviceTick)
	err := ask(call)
	done()
	select {
	case <-time.After(serviceTick / 5): // to limit the load on the servers
	case <-ctx.Done():
	}
	if err != nil {
		return 0
	}
	return min(time.Since(begun), serviceTick)
}

func (s *Service) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served += d
	for at, alarm := range s.alarms {
		if s.served >= at {
			close(alarm)
			delete(s.alarms, at)
		}
	}
}

// Stop ends the measurement.
func (s *Service) Stop() { s.stop() }

// Served returns how long the servers were available.
func (s *Service) Served() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// After returns a channel that is closed once they were available for d, or a
// little later.
func (s *Service) After(d time.Duration) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	alarm := s.alarms[d]
	if alarm == nil {
		alarm = make(chan struct{})
		s.alarms[d] = alarm
	}
	return alarm
}
