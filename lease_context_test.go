package pawl

import (
	"context"
	"errors"
	"testing"
)

type tag struct{}

// A lease's context is made when somebody asks for it, which may be at any time.
func TestTheContextOfALeaseIsTheSameWheneverItIsAskedFor(t *testing.T) {
	for _, early := range []bool{true, false} {
		withFaults(t, func(t *testing.T, c *Client, _ *faultEngine) {
			caller, cancel := context.WithCancel(context.WithValue(t.Context(), tag{}, "carried"))
			l, err := c.Mutex("name").Lock(caller)
			if err != nil {
				t.Fatal(err)
			}
			cancel() // bounded the wait, not the work
			child := context.Background()
			if early {
				var stop context.CancelFunc
				child, stop = context.WithCancel(l.Context())
				defer stop()
				if l.Context().Err() != nil || child.Err() != nil {
					t.Error("the caller's end ended the lease's context")
				}
			}
			if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
			<-l.Context().Done()
			if err := l.Context().Err(); err != context.Canceled {
				t.Errorf("Err: %v", err)
			}
			if err := context.Cause(l.Context()); !errors.Is(err, ErrReleased) {
				t.Errorf("Cause: %v, not ErrReleased", err)
			}
			if v := l.Context().Value(tag{}); v != "carried" {
				t.Errorf("Value: %v", v)
			}
			if early {
				<-child.Done()
				if err := context.Cause(child); !errors.Is(err, ErrReleased) {
					t.Errorf("Cause of a child: %v, not ErrReleased", err)
				}
			}
		})
	}
}
