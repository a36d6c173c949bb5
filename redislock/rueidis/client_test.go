package rueidis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// soon bounds events that need no timer, on a busy machine.
const soon = 5 * time.Second

func scripted(request []byte) bool { return bytes.Contains(request, []byte("EVALSHA")) }

func mutex(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

// connect makes a client with the library's own defaults.
func connect(t *testing.T, addr string) redis.Client {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func session(t *testing.T, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls counts how often clients have run scripts by digest.
func calls(t *testing.T, addr string) (n int) {
	t.Helper()
	c := connect(t, addr)
	info, err := c.Do(t.Context(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n) // 0 if there was none
	return n
}

func TestAClientThatRetriesDoesNotRepeatALock(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := faultproxy.New(t, s.Addr())
	e := rueidis.New(connect(t, p.Addr()))
	defer e.Close()
	one := session(t, e, time.Minute)
	for i := range 20 { // on whichever connection it is sent
		if _, err := one.Enter(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		if err := one.Leave(t.Context(), mutex("aa", "warm")); err != nil {
			t.Fatal(err)
		}
		before := calls(t, s.Addr())
		p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(scripted))
		st, err := one.Enter(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job"))
		if !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("Enter, the reply to which was lost: %+v, %v, not ErrUnreachable", st, err)
		}
		if n := calls(t, s.Addr()) - before; n != 1 {
			t.Fatalf("Enter was sent %d times", n)
		}
		p.Heal()
		if err := one.Leave(t.Context(), mutex(fmt.Sprintf("%x", i+1), "job")); err != nil {
			t.Fatalf("Leave of what was entered without an answer: %v", err)
		}
	}
}

// A scan only reads, so a client that repeats such commands repeats it.
func TestAClientThatRetriesRepeatsAScan(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, testserver.Redis(t).Addr())
	e := rueidis.New(connect(t, p.Addr()))
	defer e.Close()
	if _, err := session(t, e, time.Minute).Enter(t.Context(), mutex("aa", "held")); err != nil {
		t.Fatal(err)
	}
	p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(request []byte) bool { return bytes.Contains(request, []byte("SCAN")) }))
	n := 0
	for _, err := range e.List(t.Context(), "") {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 || p.Swallowed() != 1 {
		t.Errorf("%d of one claim; %d replies were lost", n, p.Swallowed())
	}
}

// Also if the connection has to be made first, and the server accepts it but never replies.
func TestACallComesBackWhenItsCtxEnds(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	for _, connected := range []bool{true, false} {
		p := faultproxy.New(t, s.Addr())
		c := connect(t, p.Addr())
		e, unused := rueidis.New(c), rueidis.New(c)
		defer e.Close()
		defer unused.Close()
		one := session(t, e, time.Minute)
		if _, err := one.Enter(t.Context(), mutex("aa", "held")); err != nil {
			t.Fatal(err)
		}
		p.BlackHole(faultproxy.Both)
		if !connected {
			p.Reset()
		}
		calls := map[string]func(context.Context) error{
			"Enter": func(ctx context.Context) error { _, err := one.Enter(ctx, mutex("bb", "job")); return err },
			"Leave": func(ctx context.Context) error { return one.Leave(ctx, mutex("aa", "held")) },
			"Beat": func(ctx context.Context) error {
				return one.Beat(ctx, []driver.Claim{mutex("aa", "held")}, make([]driver.Standing, 1))
			},
			"Evict": func(ctx context.Context) error {
				return e.Evict(ctx, driver.Entry{Claim: mutex("aa", "held"), Held: true})
			},
			"List": func(ctx context.Context) (err error) {
				for _, err = range e.List(ctx, "") {
				}
				return err
			},
			"Open": func(ctx context.Context) error { // the first one, which asks for the eviction policy
				_, err := unused.Open(ctx, driver.SessionOptions{ID: "another", TTL: time.Minute})
				return err
			},
		}
		for name, call := range calls {
			for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
				t.Run(fmt.Sprintf("%s connected %t %v", name, connected, want), func(t *testing.T) {
					comesBack(t, call, want)
				})
			}
		}
		p.Reset() // otherwise Close would wait for replies
		p.Heal()
	}
}

// comesBack makes a call that gets no answer, with a ctx that ends with want.
func comesBack(t *testing.T, call func(context.Context) error, want error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	if want == context.DeadlineExceeded {
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	} else {
		time.AfterFunc(50*time.Millisecond, cancel)
	}
	defer cancel()
	start := time.Now()
	err := call(ctx)
	for errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil { // it used a connection that was reset
		err = call(ctx)
	}
	if !errors.Is(err, want) {
		t.Errorf("%v, not ctx's error", err)
	}
	if took := time.Since(start); took > soon/2 {
		t.Errorf("it came back after %v", took)
	}
}

func TestAServerThatForbidsScriptsIsUsedWithoutThem(t *testing.T) {
	t.Parallel()
	rights := []string{"ACL", "SETUSER", "bare", "on", ">secret", "~*", "+@all", "-@scripting"}
	s := testserver.Valkey(t)
	admin := connect(t, s.Addr())
	if err := admin.Do(t.Context(), admin.B().Arbitrary(rights...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	e, err := open(t.Context(), "redis://bare:secret@"+s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if f := e.Features(); f != (driver.Features{Store: "redis"}) {
		t.Errorf("an engine without scripts says it can do %+v", f)
	}
	c := mutex("aa", "job")
	c.Queue = false
	if st, err := session(t, e, time.Minute).Enter(t.Context(), c); err != nil || !st.Held {
		t.Errorf("Enter: %+v, %v", st, err)
	}
	if _, err := open(t.Context(), "redis://bare:secret@"+s.Addr()+"?wait=1"); err == nil {
		t.Error("waiting for replicas is possible without scripts")
	}

	// Redis 7 has no command that compares a value.
	old := testserver.Redis(t)
	admin = connect(t, old.Addr())
	if err := admin.Do(t.Context(), admin.B().Arbitrary(rights...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), "redis://bare:secret@"+old.Addr())
	if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a user without scripts: %v, not ErrDenied", err)
	}
	if _, err = open(t.Context(), "redis://"+old.Addr()+"?scripts=never"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a server without commands that compare: %v, not ErrUnsupported", err)
	}
}

func open(ctx context.Context, store string) (driver.Engine, error) {
	u, err := url.Parse(store)
	if err != nil {
		return nil, err
	}
	opener, _ := driver.Lookup(u.Scheme)
	return opener(ctx, u)
}
