package sqllock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// caught holds the next request that a proxy gets until it is let go.
func caught(p *faultproxy.Proxy) (held <-chan struct{}, letGo func()) {
	var armed atomic.Bool
	armed.Store(true)
	got, release := make(chan struct{}), make(chan struct{})
	p.OnChunk(func(c faultproxy.Chunk) {
		if c.Dir == faultproxy.ToServer && c.Stage == faultproxy.Forwarded && armed.Swap(false) {
			close(got)
			<-release
		}
	})
	return got, func() { close(release) }
}

// An Enter is called off while its request is on the way, and the session is
// closed, over another connection, before the request arrives.
func TestAnEnterThatArrivesAfterCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(string) driver.Claim{
		"exclusive": mutex,
		"shared": func(name string) driver.Claim {
			c := mutex(name)
			c.Limit = driver.All
			return c
		},
	}
	onServers(t, func(t *testing.T, r *rig) {
		for kind, claim := range kinds {
			t.Run(kind, func(t *testing.T) {
				p := faultproxy.New(t, r.addr)
				s, c := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute), claim(nameOf(t))
				for range 2 { // connects, makes the row, and has all statements prepared
					hold(t, s, c)
					if err := s.Leave(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					c = claim(c.Name)
				}
				held, letGo := caught(p)
				ctx, cancel := context.WithCancel(t.Context())
				entered := make(chan error, 1)
				go func() {
					_, err := s.Enter(ctx, c)
					entered <- err
				}()
				<-held
				cancel()
				if err := <-entered; !errors.Is(err, context.Canceled) {
					t.Errorf("the Enter that was called off: %v", err)
				}
				closed := make(chan error, 1)
				go func() { closed <- s.Close(t.Context()) }()
				var err error
				select {
				case err = <-closed:
					letGo()
					time.Sleep(200 * time.Millisecond) // the server works on the request
				case <-time.After(50 * time.Millisecond): // Close waits for it, a second
					letGo()
					err = <-closed
				}
				if err != nil {
					t.Errorf("Close: %v", err)
				}
				for x, err := range r.engine(t).List(t.Context(), c.Name) {
					t.Errorf("left behind: %+v, %v", x, err)
				}
			})
		}
	})
}

// A session is closed while the server is silent and an Enter is under way: both
// come back, and the one that enters learns that the session has ended.
func TestCloseCancelsAnEnterThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		s, c := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute), mutex(nameOf(t))
		hold(t, s, c)
		held, letGo := caught(p)
		defer letGo()
		entered := make(chan error, 1)
		go func() {
			_, err := s.Enter(t.Context(), mutex(c.Name+"/2"))
			entered <- err
		}()
		<-held
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-entered; !errors.Is(err, driver.ErrGone) {
			t.Errorf("the Enter that was under way: %v", err)
		}
		for x, err := range r.engine(t).List(t.Context(), c.Name) {
			t.Errorf("left behind: %+v, %v", x, err)
		}
	})
}

// The same with a Leave in place of Close, and a request that arrives a moment
// later: the two travel on connections of their own, and the Leave must not
// overtake.
func TestALeaveDoesNotOvertakeItsEnter(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		p := faultproxy.New(t, r.addr)
		s := openSession(t, openEngine(t, r.via(p.Addr())), time.Minute)
		for try := 0; ; try++ {
			name := nameOf(t)
			for range 2 {
				c := mutex(name)
				hold(t, s, c)
				if err := s.Leave(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			c := mutex(name)
			held, letGo := caught(p)
			ctx, cancel := context.WithCancel(t.Context())
			entered := make(chan error, 1)
			go func() {
				_, err := s.Enter(ctx, c)
				entered <- err
			}()
			<-held
			cancel()
			time.Sleep(20 * time.Millisecond) // of the 100 that it is waited for
			letGo()
			err := <-entered
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the Enter that was called off: %v", err)
			}
			if err != nil && try < 10 { // the machine stood still until it was not waited for any more
				_ = s.Leave(t.Context(), c)
				continue
			}
			if err := s.Leave(t.Context(), c); err != nil {
				t.Errorf("Leave: %v", err)
			}
			for x, err := range r.engine(t).List(t.Context(), name) {
				t.Errorf("left behind: %+v, %v", x, err)
			}
			return
		}
	})
}
