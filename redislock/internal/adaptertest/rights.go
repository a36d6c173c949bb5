package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// restricted connects as a user with rights, which follow its password.
func restricted(t *testing.T, connect Adapter, rights ...string) (*Connected, console) {
	t.Helper()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	at.do(append([]string{"ACL", "SETUSER", "some", "on", ">secret"}, rights...)...)
	return connect(t, Config{Addrs: []string{s.Addr()}, User: "some", Password: "secret"}), at
}

// The server refuses a merged command because of any one of its keys.
func forbiddenName(t *testing.T, connect Adapter) {
	const callers, rounds = 60, 15
	e, _ := restricted(t, connect, "+@all", "~pawl:yes*", "~pawl:\x01*", "&*")
	one := session(t, e, time.Minute)
	var denied, held atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			name := fmt.Sprint("yes", i)
			if i%10 == 0 {
				name = fmt.Sprint("no", i)
			}
			for round := range rounds {
				c := mutex(fmt.Sprintf("%x", i*rounds+round+1), name)
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

func deniedWatch(t *testing.T, connect Adapter) {
	e, at := restricted(t, connect, "+@all", "~*", "resetchannels")
	w := e.Engine.(driver.Watcher)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := w.Watch(ctx, "name"); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Watch without the right: %v, not ErrDenied", err)
	}
	at.do("ACL", "SETUSER", "some", "allchannels")
	for {
		if _, err := w.Watch(ctx, "name"); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("Watch is not permitted when the user has the right")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Servers have no code for a right that is missing in a script.
func deniedInScript(t *testing.T, connect Adapter) {
	e, at := restricted(t, connect, "+@all", "~*", "&*")
	one := session(t, e, time.Minute)
	held := mutex("aa", "held")
	if st, err := one.Enter(t.Context(), held); err != nil || !st.Held {
		t.Fatalf("%+v, %v", st, err)
	}
	at.do("ACL", "SETUSER", "some", "-set", "-getset", "-pexpire", "-del")
	waits := mutex("bb", "held")
	waits.Queue = false
	for name, call := range map[string]func() error{
		"Enter": func() error { _, err := one.Enter(t.Context(), mutex("cc", "free")); return err },
		"Beat":  func() error { return one.Beat(t.Context(), []driver.Claim{held}, make([]driver.Standing, 1)) },
		"Leave": func() error { return one.Leave(t.Context(), held) },
		"Evict": func() error {
			line, err := e.Line(t.Context(), "held")
			if err != nil || len(line) != 1 {
				return fmt.Errorf("%d claims, %w", len(line), err)
			}
			return e.Evict(t.Context(), line[0])
		},
	} {
		if err := call(); !errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s without a right that its script needs: %v, not ErrDenied", name, err)
		}
	}
}

// A user that may take a lock but not renew it, or not give it back, gets none.
func deniedRenewal(t *testing.T, connect Adapter) {
	for _, right := range []string{"-pexpire", "-del"} {
		e, at := restricted(t, connect, "+@all", "~*", "&*", right)
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: time.Minute})
		if err == nil {
			_, err = s.Enter(t.Context(), mutex("aa", "name"))
		}
		if !errors.Is(err, driver.ErrDenied) {
			t.Errorf("Enter with %s: %v, not ErrDenied", right, err)
		}
		at.do("ACL", "SETUSER", "some", "+@all")
		if s, err = e.Open(t.Context(), driver.SessionOptions{ID: "another", TTL: time.Minute}); err != nil {
			t.Fatalf("Open with all rights: %v", err)
		}
		if st, err := s.Enter(t.Context(), mutex("bb", "name")); err != nil || !st.Held {
			t.Errorf("Enter with all rights: %+v, %v", st, err)
		}
	}
	// A share needs more.
	e, _ := restricted(t, connect, "+@all", "~*", "&*", "-zrangebyscore")
	one := session(t, e, time.Minute)
	if st, err := one.Enter(t.Context(), mutex("aa", "name")); err != nil || !st.Held {
		t.Errorf("Enter of a mutex, which needs no right to a set: %+v, %v", st, err)
	}
	shared := driver.Claim{ID: "bb", Try: 1, Name: "shared", Need: 1, Limit: 2, Queue: true}
	if _, err := one.Enter(t.Context(), shared); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Enter of a share that could not be renewed: %v, not ErrDenied", err)
	}
}
