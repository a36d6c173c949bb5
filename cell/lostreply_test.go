package cell_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// A write whose reply is lost may have been made. If a client repeated it by itself, the
// repeat would meet the first and be called a conflict, and Update would count twice.
func TestAWriteWhoseReplyIsLostIsNeverAConflict(t *testing.T) {
	t.Parallel()
	recipetest.EachSharedWithRecords(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // a file always answers
		}
		through, proxies := s.Through(t)
		proxy := proxies[0] // none of these stores is a quorum
		ctx, made, late := t.Context(), 0, ""
		r, err := through(t).Records()
		direct, derr := recipetest.On(s.URL)(t).Records()
		if err != nil || derr != nil {
			t.Fatal(err, derr)
		}
		for i := range 12 {
			_, version, err := r.Load(ctx, "key") // connects again after the last cut
			for try := 0; err != nil && try < 100; try++ {
				time.Sleep(20 * time.Millisecond)
				_, version, err = r.Load(ctx, "key")
			}
			if err != nil {
				t.Fatal(err)
			}
			var requests atomic.Int64
			proxy.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func([]byte) bool {
				return requests.Add(1) > int64(i%4) // a write may take several
			}))
			value := fmt.Sprint("value ", i)
			_, err = r.Store(ctx, "key", []byte(value), version, 0)
			proxy.Heal()
			now, _, lerr := direct.Load(ctx, "key")
			if lerr != nil {
				t.Fatal(lerr)
			}
			if errors.Is(err, driver.ErrConflict) && (late == "" || string(now) != late) {
				t.Errorf("write %d, alone on its key: %v", i, err)
			}
			late = ""
			switch written := string(now) == value; {
			case err == nil && !written:
				t.Errorf("write %d succeeded, and the record is %q", i, now)
			case err != nil && written:
				made++
			case err != nil:
				late = value // it may be made yet
			}
		}
		if made == 0 {
			t.Error("no write was made whose reply was lost: nothing is shown")
		}
		t.Logf("%d writes were made whose replies were lost", made)
	})
}
