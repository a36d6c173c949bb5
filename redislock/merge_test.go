package redislock_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// onEachClient runs a test for each client library, with a session on a server of its own.
func onEachClient(t *testing.T, test func(t *testing.T, one driver.Session, c *console)) {
	for library, engine := range map[string]func(t *testing.T, addr string) driver.Engine{
		"rueidis": func(t *testing.T, addr string) driver.Engine {
			c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return rueidis.New(c)
		},
		"go-redis": func(t *testing.T, addr string) driver.Engine {
			c := goredisclient.NewClient(&goredisclient.Options{Addr: addr})
			t.Cleanup(func() { _ = c.Close() })
			return goredis.New(c)
		},
	} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t)
			e := engine(t, s.Addr())
			t.Cleanup(func() { _ = e.Close() })
			one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			test(t, one, newConsole(t, s.Addr()))
		})
	}
}

func exclusive(id int, name string) driver.Claim {
	return driver.Claim{ID: fmt.Sprintf("%032x", id), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

// Many goroutines take names at once, so that their calls are merged. Some want a name that
// is held or waited for, so that a merged command serves only a part of them.
func TestMergedCallsKeepTheLaws(t *testing.T) {
	t.Parallel()
	onEachClient(t, mergedCallsKeepTheLaws)
}

func mergedCallsKeepTheLaws(t *testing.T, one driver.Session, c *console) {
	const workers, rounds, names = 64, 20, 24
	var (
		inside  [names]atomic.Int32
		waited  atomic.Int32
		tokens  sync.Map
		work    sync.WaitGroup
		claimNo atomic.Int64
	)
	for range workers {
		work.Go(func() {
			for range rounds {
				n := rand.IntN(names)
				cl := exclusive(int(claimNo.Add(1)), fmt.Sprint("name", n))
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
		t.Error("no claim had to wait: the test tests too little")
	}
	for n := range names {
		if left := c.do("EXISTS", fmt.Sprint("pawl:name", n)); left != "0" {
			t.Errorf("name %d was left behind", n)
		}
	}
	var scripts int
	_, rest, _ := strings.Cut(c.do("INFO", "commandstats"), "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscan(strings.Split(rest, ",")[0], &scripts); err != nil {
		t.Fatal(err)
	}
	if scripts >= 2*workers*rounds {
		t.Errorf("%d scripts for %d calls: nothing was merged", scripts, 2*workers*rounds)
	}
}

// One of many names is a key of another type; only calls for that name may fail.
func TestAKeyOfAnotherTypeDoesNotFailTheCallsItIsMergedWith(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, one driver.Session, c *console) {
		c.do("RPUSH", "pawl:name7", "x")
		for round := range 30 {
			enterMany(t, one, round)
		}
	})
}

// enterMany enters and leaves 32 names concurrently; the seventh is a list.
func enterMany(t *testing.T, one driver.Session, round int) {
	var work sync.WaitGroup
	for i := range 32 {
		work.Go(func() {
			cl := exclusive(round*100+i+1, fmt.Sprint("name", i))
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
