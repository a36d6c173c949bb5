package engines_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// The holder was evicted, another client holds the lock, and the connection is cut
// while the holder unlocks: the result may be that the lock was lost or that the
// outcome is unknown, never success.
func TestUnlockOfAnEvictedLeaseOverACutLinkIsNoSuccess(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // there is no connection to cut
		}
		through, proxies := s.Through(t)
		other := recipetest.On(s.URL)(t)
		l, err := through(t).Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		line, err := other.Line(t.Context(), "a")
		if err != nil || len(line) != 1 || line[0].ID != l.ID() {
			t.Fatalf("the line is %+v, %v", line, err)
		}
		silence(proxies) // nothing notifies the holder
		if err := other.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		rival, err := other.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { // while Unlock waits for an answer
			for _, p := range proxies {
				p.Reset()
			}
			heal(proxies)
		})
		if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
			t.Errorf("Unlock: %v, a rival holds the lock", err)
		}
		if err := rival.Err(); err != nil {
			t.Errorf("the rival: %v", err)
		}
		if err := rival.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
