package pawl

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestConfirmAsksTheStoreAndProlongs(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(2 * time.Second) // before the first beat
		if err := l.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(l.Deadline()); left != 9500*time.Millisecond {
			t.Errorf("deadline in %v", left)
		}
		l.Unlock()
		wantErr(t, l.Confirm(t.Context()), ErrReleased)
	})
}

func TestConfirmRepeatsAQuestionWhoseReplyWasLost(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		asked := 0
		r.set(func(r *faultEngine) {
			r.beat = func(ctx context.Context, _ []driver.Claim, out []driver.Standing, next func(context.Context) error) error {
				asked++
				if err := next(ctx); err != nil || asked > 2 {
					return err
				}
				clear(out)
				return driver.ErrUnreachable
			}
		})
		if err := l.Confirm(t.Context()); err != nil || asked != 3 {
			t.Errorf("after %d questions: %v", asked, err)
		}
		r.heal()
		l.Unlock()
	})
}

func TestConfirmOnASilentStoreEndsWithItsContextAndTheLeaseGoesOn(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.blackHole()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := l.Confirm(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, ErrUnreachable)
		if errors.Is(err, ErrLost) || l.Err() != nil {
			t.Errorf("nothing was learnt, and the lease is %v", l.Err())
		}
		wantErr(t, l.Confirm(t.Context()), ErrLost) // at its deadline
		wantErr(t, l.Err(), ErrLost)
		r.heal()
	})
}

func TestConfirmLearnsOfALoss(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		line, err := c.Line(t.Context(), "a")
		if err != nil || len(line) != 1 {
			t.Fatal(line, err)
		}
		if err := c.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		wantErr(t, l.Confirm(t.Context()), ErrLost)
		wantErr(t, context.Cause(l.Context()), ErrLost)
		wantErr(t, l.Unlock(), ErrLost)
	})
}

func TestConfirmLearnsOfTheEndOfTheSession(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		other := must(t)(c.Mutex("b").Lock(t.Context()))
		r.set(func(r *faultEngine) {
			r.beat = func(context.Context, []driver.Claim, []driver.Standing, func(context.Context) error) error {
				return driver.ErrGone
			}
		})
		wantErr(t, l.Confirm(t.Context()), ErrLost)
		wantErr(t, other.Err(), ErrLost)
		r.heal()
	})
}

func TestConfirmOfSeveralNamesAsksForEach(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.LockAll(t.Context(), []string{"a", "b", "c"}))
		if err := l.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		line, err := c.Line(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		err = l.Confirm(t.Context())
		wantErr(t, err, ErrLost)
		if e, ok := errors.AsType[*Error](err); !ok || e.Op != "confirm" || e.Name != "b" {
			t.Errorf("which name: %v", err)
		}
		wantErr(t, l.Err(), ErrLost)
		wantErr(t, l.Unlock(), ErrLost)
		if n := listed(t, c); n != 0 {
			t.Errorf("%d claims left", n)
		}
	})
}

func TestConfirmDoesNotProlongALeaseWithoutRenewal(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a", WithoutRenewal()).Lock(t.Context()))
		before := l.Deadline()
		time.Sleep(5 * time.Second)
		if err := l.Confirm(t.Context()); err != nil {
			t.Error(err)
		}
		if !l.Deadline().Equal(before) {
			t.Errorf("the deadline moved by %v", l.Deadline().Sub(before))
		}
		<-l.Context().Done()
		wantErr(t, l.Confirm(t.Context()), ErrLost)
	})
}

func TestCloseEndsAConfirm(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		r.blackHole()
		done := make(chan error, 1)
		go func() { done <- l.Confirm(context.Background()) }()
		time.Sleep(100 * time.Millisecond)
		go r.heal()
		c.Close()
		wantErr(t, <-done, ErrClosed)
	})
}
