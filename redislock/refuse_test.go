package redislock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Only an exact value is a hold of pawl's.
func TestForeignValuesAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr())
	l := lock(t, c.Mutex("pattern"))
	mine := at.do("GET", "pawl:pattern")
	unlock(t, l)
	for i, value := range []string{"", "x", "p1", "p1 ", "p1 shared", "p1 deadbeef 1 1", "p1 " + strings.Repeat("0", 32) + " 1 5 1 s 1000 0 note",
		"\x00\xff\n", strings.Repeat("a", 5000), mine[:len(mine)-3], mine + "x"} {
		name := "name" + string(rune('a'+i))
		at.do("SET", "pawl:"+name, value, "PX", "60000")
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("value %.40q: TryLock says %v", value, err)
		}
		if _, err := c.RWMutex(name).TryRLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("value %.40q: TryRLock says %v", value, err)
		}
		if got := at.do("GET", "pawl:"+name); got != value {
			t.Errorf("value %.40q became %.40q", value, got)
		}
	}
}

func TestAKeyOfAnotherTypeIsAClearErrorAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr())
	at.do("RPUSH", "pawl:list", "a", "b")
	at.do("HSET", "pawl:hash", "a", "b")
	for _, name := range []string{"list", "hash"} {
		for about, try := range map[string]func() error{
			"TryLock": func() error { _, err := c.Mutex(name).TryLock(t.Context()); return err },
			"Lock":    func() error { _, err := c.Mutex(name).Lock(t.Context()); return err },
			"RLock":   func() error { _, err := c.RWMutex(name).RLock(t.Context()); return err },
		} {
			if err := try(); err == nil || !strings.Contains(err.Error(), "pawl:"+name) || errors.Is(err, pawl.ErrHeld) {
				t.Errorf("%s of a key that is a %s: %v", about, name, err)
			}
		}
	}
	if at.do("LLEN", "pawl:list") != "2" || at.do("HLEN", "pawl:hash") != "1" || at.do("DBSIZE") != "2" {
		t.Errorf("something was changed or left behind: %s keys", at.do("DBSIZE"))
	}
}

func TestAFenceThatIsNoNumberIsAClearErrorAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr())
	unlock(t, lock(t, c.Mutex("name")))
	fence := at.do("RANDOMKEY") // the only key that a lock leaves
	for _, value := range []string{"", "abc", "not a number, but longer than one"} {
		at.do("SET", fence, value)
		if _, err := c.Mutex("name").TryLock(t.Context()); err == nil || errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "not a number") {
			t.Errorf("with %q as the fence: %v", value, err)
		}
		if got := at.do("GET", fence); got != value || at.do("DBSIZE") != "1" {
			t.Errorf("%q became %q, among %s keys", value, got, at.do("DBSIZE"))
		}
	}
}

func TestScriptsThatWereFlushedAreSentAgain(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	var held []*pawl.Lease
	for i := range 5 {
		held = append(held, lock(t, c.Mutex("held"+string(rune('a'+i)))))
	}
	for range 10 {
		at.do("SCRIPT", "FLUSH")
		l := lock(t, c.Mutex("name"))
		at.do("SCRIPT", "FLUSH")
		time.Sleep(ttl / 10)
		unlock(t, l)
	}
	for _, l := range held {
		unlock(t, l)
	}
}

// A read-only replica, a master without replicas, and one that is out of memory.
func TestAServerThatRefusesWritesSaysSo(t *testing.T) {
	t.Parallel()
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		master := testserver.Redis(t)
		replica := testserver.RedisReplica(t, master.Addr())
		expectRefused(t, open(t, "redis://"+replica.Addr()), "READONLY")
	})
	t.Run("too few replicas", func(t *testing.T) {
		t.Parallel()
		s := testserver.Redis(t, "--min-replicas-to-write", "1")
		expectRefused(t, open(t, "redis://"+s.Addr()), "NOREPLICAS")
	})
	t.Run("out of memory", func(t *testing.T) {
		t.Parallel()
		const ttl = steady
		s := testserver.Redis(t, "--maxmemory-policy", "noeviction")
		at := newConsole(t, s.Addr())
		c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
		l := lock(t, c.Mutex("held"))
		r, err := c.RWMutex("read").RLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at.do("CONFIG", "SET", "maxmemory", "1")
		expectRefused(t, c, "OOM")
		outlast(ttl) // renewals go on, and releases work
		if l.Err() != nil || r.Err() != nil {
			t.Errorf("not renewed: %v, %v", l.Err(), r.Err())
		}
		unlock(t, l)
		unlock(t, r)
		at.do("CONFIG", "SET", "maxmemory", "0")
		unlock(t, lock(t, c.Mutex("held")))
	})
}

// expectRefused fails unless the errors of TryLock and Lock have the server's code.
func expectRefused(t *testing.T, c *pawl.Client, code string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Mutex("name").TryLock(ctx); err == nil || errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), code) {
		t.Errorf("TryLock: %v, want %s", err, code)
	}
	if _, err := c.Mutex("name").Lock(ctx); err == nil || !strings.Contains(err.Error(), code) {
		t.Errorf("Lock: %v, want %s", err, code)
	}
}

func TestAServerThatMayEvictLocksIsRefused(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	c, err := pawl.Open(t.Context(), "redis://"+s.Addr())
	if err == nil {
		_, err = c.Mutex("name").TryLock(t.Context())
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("%v", err)
	}
	unlock(t, lock(t, open(t, "redis://"+s.Addr()+"?allow-eviction=yes").Mutex("name")))
}

func TestBadURLsAndCredentials(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "--requirepass", "s3cret")
	try := func(url string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := pawl.Open(ctx, url)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Mutex("name").TryLock(ctx)
		return err
	}
	if err := try("redis://:s3cret@" + s.Addr()); err != nil {
		t.Errorf("the right password: %v", err)
	}
	for _, url := range []string{"redis://:wr0ng@" + s.Addr(), "redis://nobody:wr0ng@" + s.Addr(), "redis://" + s.Addr()} {
		if err := try(url); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v, want ErrDenied and no password", url, err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never replies
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, url := range []string{"redis://127.0.0.1:1", "redis://" + listener.Addr().String(), "redis://:wr0ng@127.0.0.1:1"} {
		began := time.Now()
		err := try(url)
		if !errors.Is(err, pawl.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v, want ErrUnreachable and no password", url, err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("%s: failed after %v", url, took)
		}
	}
	for url, want := range map[string]string{
		"redis://":                        "host",
		"redis://:wr0ng@h:port":           "",
		"redis://h/x":                     "number",
		"redis://h?colour=red":            "known: ",
		"redis://h,i":                     "sentinel",
		"redis-sentinel://h":              "master",
		"redis-cluster://h/1":             "database",
		"redis://h?wait=many":             "wait",
		"redis://h?wait-timeout=1s":       "wait",
		"redis://:wr0ng@h#x":              "%23",
		"redis://h?tls=maybe":             "yes",
		"redis://h?tls-ca=/none&tls=yes":  "tls-ca",
		"redis://h?prefix=%01":            "prefix",
		"redis://:wr0ng%zz@h":             "",
		"redis-cluster://h?prefix=%7Bbad": "",
	} {
		if err := try(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v, want %q and no password", url, err, want)
		}
	}
}
