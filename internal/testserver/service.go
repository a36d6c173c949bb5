package testserver

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A Service counts the time in which servers serve, by asking them something all the
// while: of the time until an answer it counts no more than serviceTick, and until a
// question fails nothing. What a client does with servers that answer has a limit;
// an election on a machine that stands still has none that a client could keep.
type Service struct {
	stop func()

	mu     sync.Mutex // guards what follows
	served time.Duration
	alarms map[time.Duration]chan struct{} // closed by pass
}

const serviceTick = 250 * time.Millisecond

// Serving counts from now on, until the test or Stop ends it. What ask asks should be
// what the servers need a majority for; it has four ticks' time for that.
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

// once asks once, rests a little, and returns what counts of the time it took.
func measureOnce(ctx context.Context, ask func(context.Context) error) time.Duration {
	begun := time.Now()
	call, done := context.WithTimeout(ctx, 4*serviceTick)
	err := ask(call)
	done()
	select {
	case <-time.After(serviceTick / 5): // the servers have other things to do
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

// Stop ends the counting.
func (s *Service) Stop() { s.stop() }

// Served returns for how long the servers have served.
func (s *Service) Served() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// After returns a channel that is closed when they have served for so long, or a
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
