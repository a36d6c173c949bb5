package sqlline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

func remoteSession(t *testing.T) *session {
	s := newSession(&Engine{d: Dialect{Remote: true}}, driver.SessionOptions{ID: "s", TTL: time.Minute})
	t.Cleanup(s.cancel)
	return s
}

// The batch has returned within its grace, and its connection is another caller's: the
// end of the grace must not cancel a call on it.
func TestABatchThatReturnedIsNotCancelledAfterItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remoteSession(t)
		ctx, cancel := context.WithCancel(t.Context())
		var life context.Context
		err := s.enterInflight(ctx, []*sqlstore.Args{{}}, func(ctx context.Context) error {
			life = ctx
			cancel()
			time.Sleep(inflightGrace / 2) // the answer arrives
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * inflightGrace)
		if life.Err() != nil {
			t.Errorf("the batch's context: %v", life.Err())
		}
		if len(s.inflight) != 0 {
			t.Error("a batch that was answered is still remembered")
		}
	})
}

func TestABatchIsCancelledAtTheEndOfItsGraceAndRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remoteSession(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		err := s.enterInflight(ctx, []*sqlstore.Args{{}}, func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("no answer")
		})
		if !errors.Is(err, context.Canceled) || time.Since(begun) != inflightGrace {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if len(s.inflight) != 1 {
			t.Error("the batch was forgotten: Close would not end what it enters")
		}
	})
}
