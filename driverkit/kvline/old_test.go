package kvline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// behind is a store whose reads can be from before the first write, as of a member that
// has not caught up. A write goes to all members: one that is refused brings the news.
type behind struct {
	*memory
	reads *atomic.Bool // find nothing
}

func (b behind) Get(ctx context.Context, key string) (kvline.Value, error) {
	if b.reads.Load() {
		return kvline.Value{}, nil
	}
	return b.memory.Get(ctx, key)
}

func (b behind) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	revision, err := b.memory.Put(ctx, key, v, keep)
	if errors.Is(err, kvline.ErrConflict) && v.Revision == 0 {
		b.reads.Store(false)
	}
	return revision, err
}

// A read that finds nothing does not decide that a claim is gone.
func TestAnOldReadEndsNoClaim(t *testing.T) {
	for what, call := range map[string]func(*testing.T, driver.Session, driver.Claim){
		"Beat": func(t *testing.T, s driver.Session, c driver.Claim) {
			if st := beat(t, s, c)[0]; st.Gone {
				t.Errorf("Beat: %+v", st)
			}
		},
		"Await": func(t *testing.T, s driver.Session, c driver.Claim) {
			st, err := s.Await(t.Context(), c, driver.Standing{Ahead: 1, Pause: time.Millisecond})
			if err != nil || st.Gone {
				t.Errorf("Await: %+v, %v", st, err)
			}
		},
		"Leave": func(t *testing.T, s driver.Session, c driver.Claim) {
			if err := s.Leave(t.Context(), c); err != nil {
				t.Errorf("Leave: %v", err)
			}
		},
		"Close": func(t *testing.T, s driver.Session, c driver.Claim) {
			if err := s.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				old := behind{m, new(atomic.Bool)}
				holder, waiter := open(t, m, "one"), open(t, old, "two")
				enter(t, holder, queued("holder"))
				enter(t, waiter, queued("waiter"))
				enter(t, holder, queued("last")) // so that the waiter has to read the line
				old.reads.Store(true)
				call(t, waiter, queued("waiter"))
				old.reads.Store(false)
				admin := kvline.New("memory", m, driver.Volatile)
				defer admin.Close()
				line, err := admin.Line(t.Context(), "name")
				want := 3
				if what == "Leave" || what == "Close" {
					want = 2
				}
				if err != nil || len(line) != want {
					t.Errorf("%d in line, %v", len(line), err)
				}
			})
		})
	}
}
