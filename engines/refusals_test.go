package engines_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(storeEnv); url != "" { // a process that a test of LockAll has started
		if err := takeMany(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(recipetest.MainParallel(m, 16))
}

// says checks an error: its kind, that it is one line, and that it contains words.
func says(t *testing.T, about string, err error, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, not %q", about, err, kind)
		return
	}
	text := err.Error()
	t.Logf("%s: %s", about, text)
	if strings.ContainsAny(text, "\r\n") {
		t.Errorf("%s: several lines: %q", about, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q does not say %q", about, text, w)
		}
	}
}

// refused returns the error of a call that must not get the lock.
func refused(t *testing.T, l *pawl.Lease, err error) error {
	t.Helper()
	if err == nil {
		t.Error("it was granted")
		_ = l.Unlock()
	}
	return err
}

func taken(t *testing.T, l *pawl.Lease, err error) *pawl.Lease {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A refusal is explained in one line that names the cause, on every store.
func TestARefusalSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		ctx := t.Context()
		ana, bob := open(t, pawl.WithNote("ana")), open(t, pawl.WithNote("bob"))
		try := func(l *pawl.Lease, err error) error { return refused(t, l, err) }

		held := ana.Mutex("held")
		l, err := held.Lock(ctx)
		l = taken(t, l, err)
		says(t, "TryLock", try(bob.Mutex("held").TryLock(ctx)), pawl.ErrHeld, `lock "held"`)
		says(t, "WithWait", try(bob.Mutex("held", pawl.WithWait(50*time.Millisecond)).Lock(ctx)), pawl.ErrHeld)
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		says(t, "ctx", try(bob.Mutex("held").Lock(short)), context.DeadlineExceeded)
		stop()
		says(t, "TryLockAll", try(bob.TryLockAll(ctx, []string{"free", "held"})), pawl.ErrHeld, `lock "held"`)
		says(t, "inside", try(held.Lock(l.Context())), pawl.ErrReentry)
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
		says(t, "a second Unlock", l.Unlock(), pawl.ErrNotHeld)

		says(t, "more permits", try(ana.Semaphore("s", 3).Acquire(ctx, 5)), pawl.ErrInvalid, `acquire "s"`, "5 permits", "has only 3")
		says(t, "more permits, at once", try(ana.Semaphore("s", 3).TryAcquire(ctx, 5)), pawl.ErrLimit, "5 permits", "has only 3")
		says(t, "no permit", try(ana.Semaphore("s", 3).Acquire(ctx, 0)), pawl.ErrInvalid, "0 permits", "at least 1")
		says(t, "a debt", try(ana.Semaphore("s", 3).Acquire(ctx, -2)), pawl.ErrInvalid, "-2 permits", "at least 1")
		says(t, "a semaphore of none", try(ana.Semaphore("s", 0).Acquire(ctx, 1)), pawl.ErrInvalid, "semaphore of 0 permits")
		says(t, "no name", try(ana.Mutex("").Lock(ctx)), pawl.ErrInvalidName)
		says(t, "a name of two lines", try(ana.Mutex("a\nb").Lock(ctx)), pawl.ErrInvalidName)
		says(t, "no TTL", try(ana.Mutex("m", pawl.WithTTL(0)).Lock(ctx)), pawl.ErrInvalid)

		p, err := ana.Semaphore("s", 3).Acquire(ctx, 1)
		if err != nil {
			says(t, "a semaphore", err, pawl.ErrUnsupported, "semaphore")
			return
		}
		other := try(bob.Semaphore("s", 5).Acquire(ctx, 1))
		says(t, "another limit", other, pawl.ErrLimit, "ana", "of 5 permits", "of 3 permits")
		if e, ok := errors.AsType[*pawl.LimitError](other); !ok || e.Limit != 5 || e.Other == nil || e.Other.Limit != 3 || e.Other.ID != p.ID() {
			t.Errorf("another limit: %+v", e)
		}
		says(t, "another limit, at once", try(bob.Semaphore("s", 5).TryAcquire(ctx, 2)), pawl.ErrLimit, "ana", "of 5 permits", "of 3 permits")
		says(t, "a reader of a semaphore", try(bob.RWMutex("s").RLock(ctx)), pawl.ErrLimit, "ana", "read-write lock", "of 3 permits")
		if err := p.Unlock(); err != nil {
			t.Error(err)
		}
		r, err := ana.RWMutex("s").RLock(ctx)
		r = taken(t, r, err)
		says(t, "a semaphore of readers", try(bob.Semaphore("s", 3).Acquire(ctx, 1)), pawl.ErrLimit, "ana", "read-write lock", "of 3 permits")
		says(t, "a writer inside", try(ana.RWMutex("s").Lock(r.Context())), pawl.ErrUpgrade)
		if err := r.Unlock(); err != nil {
			t.Error(err)
		}
		if err := ana.Close(); err != nil {
			t.Error(err)
		}
		says(t, "after Close", try(ana.Mutex("m").Lock(ctx)), pawl.ErrClosed)
	})
}

// A lease says why it ended: as requested, or not.
func TestALeaseSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	recipetest.Each(t, func(t *testing.T, open recipetest.Opener) {
		ctx := t.Context()
		c := open(t)
		ended := func(l *pawl.Lease) error {
			<-l.Context().Done()
			says(t, "Err", l.Err(), context.Cause(l.Context()))
			return context.Cause(l.Context())
		}
		fixed, err := c.Mutex("fixed", pawl.WithTTL(4*time.Second), pawl.WithoutRenewal()).Lock(ctx)
		if err != nil {
			says(t, "without renewal", err, pawl.ErrUnsupported)
		}
		capped, err := c.Mutex("capped", pawl.WithMaxHold(300*time.Millisecond)).Lock(ctx)
		says(t, "a bounded hold", ended(taken(t, capped, err)), pawl.ErrLost, "300ms", "WithMaxHold")
		broken, err := c.Mutex("broken").Lock(ctx)
		broken = taken(t, broken, err)
		line, err := c.Line(ctx, "broken")
		if err != nil || len(line) != 1 {
			t.Fatal(line, err)
		}
		if line[0].ID != broken.ID() { // by which a nested pawl recognises its parent
			t.Errorf("the line has %s, the lease %s", line[0].ID, broken.ID())
		}
		if err := c.Evict(ctx, line[0]); err != nil {
			t.Fatal(err)
		}
		says(t, "evicted", ended(broken), pawl.ErrLost, "no longer knows it")
		says(t, "Unlock of it", broken.Unlock(), pawl.ErrLost, `unlock "broken"`)
		if fixed != nil {
			says(t, "without renewal", ended(fixed), pawl.ErrLost, "TTL of 4s", "as asked", "WithoutRenewal")
			if strings.Contains(fixed.Err().Error(), "confirmed") || strings.Contains(fixed.Err().Error(), "lost") {
				t.Errorf("it ended as it was asked for: %v", fixed.Err())
			}
			says(t, "Unlock of it", fixed.Unlock(), pawl.ErrLost, "TTL of 4s", "as asked")
		}
		unlocked, err := c.Mutex("unlocked").Lock(ctx)
		if err := taken(t, unlocked, err).Unlock(); err != nil {
			t.Error(err)
		}
		says(t, "given back", ended(unlocked), pawl.ErrReleased)
		closed, err := c.Mutex("closed").Lock(ctx)
		closed = taken(t, closed, err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		says(t, "closed", ended(closed), pawl.ErrClosed)
	})
}

// A store that does not answer is reported in one line, however many servers it
// has.
func TestASilentStoreIsOneLine(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // a file always answers
		}
		t.Run("silent", func(t *testing.T) {
			t.Parallel()
			oneLineWithout(t, s, func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) })
		})
		t.Run("refused", func(t *testing.T) {
			t.Parallel()
			oneLineWithout(t, s, func(p *faultproxy.Proxy) { p.Refuse(); p.Reset() })
		})
	})
}

func oneLineWithout(t *testing.T, s *recipetest.Store, fault func(*faultproxy.Proxy)) {
	ctx := t.Context()
	through, proxies := s.Through(t)
	waits := make(chan struct{}, 1)
	observer := pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	})
	ana, bob := through(t, pawl.WithTTL(10*time.Second), pawl.WithNote("ana")), through(t, pawl.WithTTL(4*time.Second), pawl.WithObserver(observer))
	all := []string{t.Name(), t.Name() + "2"}
	l, err := ana.LockAll(ctx, all)
	l = taken(t, l, err)
	short, stop := context.WithTimeout(ctx, 6*time.Second)
	defer stop()
	waited := make(chan error, 1)
	go func() { // ends with its ctx
		_, err := bob.Mutex(all[0]).Lock(short)
		waited <- err
	}()
	select {
	case <-waits:
	case err := <-waited:
		t.Fatalf("it did not wait: %v; the first holder's lock: %v", err, l.Err())
	}
	for _, p := range proxies {
		fault(p)
	}
	says(t, "Unlock", l.Unlock(), pawl.ErrUnknown)
	err = <-waited
	says(t, "the wait", err, context.DeadlineExceeded, "held")
	says(t, "the wait", err, pawl.ErrUnreachable)
	var calls sync.WaitGroup // each waits for itself
	calls.Go(func() {
		brief, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := bob.Mutex("other").Lock(brief)
		says(t, "Lock", err, context.DeadlineExceeded)
	})
	calls.Go(func() {
		_, err := bob.TryLockAll(ctx, []string{"another", "others"})
		says(t, "TryLockAll", err, pawl.ErrUnreachable)
	})
	calls.Go(func() {
		looking, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		_, err := bob.Line(looking, "other")
		says(t, "Line", err, err)
	})
	calls.Go(func() {
		for _, err := range bob.List(ctx, "") {
			says(t, "List", err, pawl.ErrUnreachable)
		}
	})
	calls.Go(func() {
		if err := ana.Close(); err != nil {
			says(t, "Close", err, err)
		}
	})
	calls.Wait()
}

// Errors of a server about a user, a database or a table are reported in one line
// too.
func TestARefusedUserIsOneLine(t *testing.T) {
	t.Parallel()
	redis, postgres, mariadb := recipetest.Redis, recipetest.PostgreSQL, recipetest.MariaDB
	nats := func(config string) func(testing.TB) string {
		return func(t testing.TB) string { return testserver.NATS(t, config).Addr() }
	}
	login := `authorization { users: [{ user: ana, password: right, permissions: { publish: { deny: "$KV.>" } } }] }`
	for about, c := range map[string]struct {
		store func(testing.TB) string
		url   string // with $ for the server's address
		kind  error
		words string
	}{
		"Redis, a password":       {redis, "redis://ana:wrong@$", pawl.ErrDenied, "WRONGPASS"},
		"Redis, a database":       {redis, "redis://$/99", nil, "DB index is out of range"},
		"NATS, a password":        {nats(login), "nats://ana:wrong@$", pawl.ErrDenied, "Authorization Violation"},
		"NATS, no password":       {nats(login), "nats://$", pawl.ErrDenied, "Authorization Violation"},
		"NATS, a right":           {nats(login), "nats://ana:right@$", pawl.ErrDenied, "Publish to"},
		"NATS, too many replicas": {nats(""), "nats://$?replicas=3", nil, "replicas"},
		"NATS, without TLS":       {nats(""), "nats://$?tls=yes", pawl.ErrUnreachable, "secure connection"},
		"PostgreSQL, a user":      {postgres, "postgres://nosuch@$/postgres?sslmode=disable", pawl.ErrDenied, "nosuch"},
		"PostgreSQL, a database":  {postgres, "postgres://postgres@$/nosuch?sslmode=disable", pawl.ErrDenied, "nosuch"},
		"PostgreSQL, its tables":  {postgres, "postgres://postgres@$/postgres?sslmode=disable&table_prefix=none_", nil, "pawl migrate"},
		"PostgreSQL, without TLS": {postgres, "postgres://postgres@$/postgres?sslmode=require", pawl.ErrUnreachable, "TLS"},
		"MariaDB, a user":         {mariadb, "mysql://nosuch:wrong@$/mysql", pawl.ErrDenied, "nosuch"},
		"MariaDB, a database":     {mariadb, "mysql://root@$/nosuch", pawl.ErrDenied, "nosuch"},
		"MariaDB, its tables":     {mariadb, "mysql://root@$/mysql?table_prefix=none_", nil, "pawl migrate"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			client, err := pawl.Open(ctx, strings.Replace(c.url, "$", c.store(t), 1))
			if err == nil {
				defer client.Close()
				var l *pawl.Lease
				l, err = client.Mutex("x").TryLock(ctx)
				err = refused(t, l, err)
			}
			if c.kind == nil {
				c.kind = err
			}
			says(t, about, err, c.kind, c.words)
		})
	}
}
