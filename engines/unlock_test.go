package engines_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// The holder was evicted, a rival holds the lock, and the link is cut while the holder
// unlocks: it may be told that it has lost or that nobody knows, never that all is well.
func TestUnlockOfAnEvictedLeaseOverACutLinkIsNoSuccess(t *testing.T) {
	t.Parallel()
	recipetest.EachSite(t, func(t *testing.T, s *recipetest.Site) {
		if !s.Served() {
			return // there is no link to cut
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
		silence(proxies) // nobody tells the holder
		if err := other.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		rival, err := other.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { // while Unlock asks
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
