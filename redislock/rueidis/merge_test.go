package rueidis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// TestMergedCallsKeepTheLaws: many goroutines take names at once, so that their
// calls travel together, and some want a name that another has or waits for, so
// that a merged command serves only a part of them.
func TestMergedCallsKeepTheLaws(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	c := connect(t, s.Addr())
	e := rueidis.New(c)
	defer e.Close()
	one := session(t, e, time.Minute)
	const workers, rounds, names = 64, 60, 24
	var (
		inside  [names]atomic.Int32
		waited  atomic.Int32
		tokens  sync.Map
		work    sync.WaitGroup
		claimNo atomic.Uint64
	)
	for range workers {
		work.Go(func() {
			for range rounds {
				n := rand.IntN(names)
				cl := mutex(fmt.Sprintf("%032x", claimNo.Add(1)), fmt.Sprint("name", n))
				st, err := one.Enter(t.Context(), cl)
				if err == nil && !st.Held {
					waited.Add(1)
				}
				for err == nil && !st.Held {
					st, err = one.Await(t.Context(), cl, st)
				}
				if err != nil || st.Token == 0 {
					t.Errorf("%+v, %v", st, err)
					return
				}
				if in := inside[n].Add(1); in != 1 {
					t.Errorf("%d hold %q", in, cl.Name)
				}
				if _, twice := tokens.LoadOrStore(st.Token, cl.ID); twice {
					t.Errorf("token %d was given twice", st.Token)
				}
				inside[n].Add(-1)
				if err := one.Leave(t.Context(), cl); err != nil {
					t.Errorf("Leave: %v", err)
				}
			}
		})
	}
	work.Wait()
	if waited.Load() == 0 {
		t.Error("nobody had to wait: the test tests too little")
	}
	if err := leftovers(c, "pawl:"); err != nil {
		t.Errorf("left behind: %v", err)
	}
	info, err := c.Do(t.Context(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	var scripts int
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscan(strings.Split(rest, ",")[0], &scripts); err != nil {
		t.Fatal(err)
	}
	if scripts >= 2*workers*rounds {
		t.Errorf("%d scripts for %d calls: nothing was merged", scripts, 2*workers*rounds)
	}
}

// TestAKeyOfAnotherTypeDoesNotSpoilAMergedCall: one of many names is something
// else, and only who wants that one is told so.
func TestAKeyOfAnotherTypeDoesNotSpoilAMergedCall(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	c := connect(t, s.Addr())
	if err := c.Do(t.Context(), c.B().Arbitrary("RPUSH", "pawl:name7", "x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	e := rueidis.New(c)
	defer e.Close()
	one := session(t, e, time.Minute)
	for round := range 30 {
		var work sync.WaitGroup
		for i := range 32 {
			work.Go(func() {
				cl := mutex(fmt.Sprintf("%032x", round*100+i+1), fmt.Sprint("name", i))
				st, err := one.Enter(t.Context(), cl)
				if i == 7 {
					if err == nil || !strings.Contains(err.Error(), "not a lock") {
						t.Errorf("a list: %+v, %v", st, err)
					}
					return
				}
				if err != nil || !st.Held {
					t.Errorf("%s: %+v, %v", cl.Name, st, err)
				} else if err := one.Leave(t.Context(), cl); err != nil {
					t.Errorf("Leave: %v", err)
				}
			})
		}
		work.Wait()
	}
}
