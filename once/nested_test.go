package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
)

// A run is known by its lock. One that asks for its own key, through a client whose
// locks may be taken again, has the lock; it is no proof that the run before is over.
func TestARunDoesNotTakeItselfForDead(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]once.Option{"retry": nil, "hold": {once.WithHold()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := pawl.New(memlock.New(), pawl.WithReentry())
			defer c.Close()
			runs := 0
			ask := func(ctx context.Context, key string, then func(context.Context) error) error {
				_, err := once.Do(ctx, c, key, func(ctx context.Context) (int, error) {
					runs++
					return runs, then(ctx)
				}, opts...)
				return err
			}
			end := func(context.Context) error { return nil }
			err := ask(t.Context(), "a", func(ctx context.Context) error {
				if err := ask(ctx, "a", end); !errors.Is(err, pawl.ErrReentry) {
					t.Errorf("inside its own run: %v, not ErrReentry", err)
				}
				return ask(ctx, "b", func(ctx context.Context) error {
					if err := ask(ctx, "a", end); !errors.Is(err, pawl.ErrReentry) {
						t.Errorf("inside another inside its own: %v, not ErrReentry", err)
					}
					if err := once.Forget(ctx, c, "a"); !errors.Is(err, once.ErrRunning) {
						t.Errorf("forgotten inside its own: %v, not ErrRunning", err)
					}
					return nil
				})
			})
			if err != nil || runs != 2 {
				t.Errorf("%d runs, not 2: %v", runs, err)
			}
			if rec, err := once.Find(t.Context(), c, "a"); err != nil || rec.State != once.Done || rec.Attempts != 1 {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		})
	}
}
