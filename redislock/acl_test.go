package redislock_test

import (
	"context"
	"errors"
	"fmt"
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

// userEngines make an engine of the user "some" with the password "secret".
var userEngines = map[string]func(t *testing.T, addr string) driver.Engine{
	"rueidis": func(t *testing.T, addr string) driver.Engine {
		c, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: []string{addr}, Username: "some", Password: "secret", ForceSingleClient: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return closed(t, rueidis.New(c))
	},
	"go-redis": func(t *testing.T, addr string) driver.Engine {
		c := goredisclient.NewClient(&goredisclient.Options{Addr: addr, Username: "some", Password: "secret"})
		t.Cleanup(func() { _ = c.Close() })
		return closed(t, goredis.New(c))
	},
}

// closed closes an engine at the end of the test.
func closed(t *testing.T, e driver.Engine) driver.Engine {
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Calls of many goroutines are merged, and the server refuses a merged command because of
// one of its keys.
func TestAForbiddenNameDoesNotFailTheCallsItIsMergedWith(t *testing.T) {
	t.Parallel()
	for library, engine := range userEngines {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t)
			newConsole(t, s.Addr()).do("ACL", "SETUSER", "some", "on", ">secret", "+@all", "~pawl:yes*", "~pawl:\x01*", "&*")
			e := engine(t, s.Addr())
			one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			crowd(t, one)
		})
	}
}

func TestAWatchWithoutTheRightToItsChannelIsDenied(t *testing.T) {
	t.Parallel()
	for library, engine := range userEngines {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := testserver.Redis(t)
			at := newConsole(t, s.Addr())
			at.do("ACL", "SETUSER", "some", "on", ">secret", "+@all", "~*", "resetchannels")
			e := engine(t, s.Addr()).(driver.Watcher)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := e.Watch(ctx, "name"); !errors.Is(err, driver.ErrDenied) {
				t.Errorf("Watch without the right: %v, not ErrDenied", err)
			}
			at.do("ACL", "SETUSER", "some", "allchannels")
			until(t, 10*time.Second, "permitted", func() bool {
				_, err := e.Watch(ctx, "name")
				return err == nil
			})
		})
	}
}

// crowd takes and gives back forbidden names beside many permitted ones.
func crowd(t *testing.T, one driver.Session) {
	const callers, rounds = 60, 15
	var denied, held atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			name := fmt.Sprint("yes", i)
			if i%10 == 0 {
				name = fmt.Sprint("no", i)
			}
			for round := range rounds {
				c := exclusive(i*rounds+round, name)
				st, err := one.Enter(t.Context(), c)
				switch {
				case i%10 == 0 && errors.Is(err, driver.ErrDenied):
					if err := one.Leave(t.Context(), c); !errors.Is(err, driver.ErrDenied) {
						t.Errorf("Leave of %s: %v", name, err)
					}
					denied.Add(1)
				case i%10 != 0 && err == nil && st.Held:
					if err := one.Leave(t.Context(), c); err != nil {
						t.Errorf("Leave of %s: %v", name, err)
					}
					held.Add(1)
				default:
					t.Errorf("Enter of %s: %+v, %v", name, st, err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d held, %d denied", held.Load(), denied.Load())
}
