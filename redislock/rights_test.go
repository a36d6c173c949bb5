package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestTheRightsInTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER app .*$`).Find(page)
	if m == nil {
		t.Fatal("docs/redis.md has no line that begins with ACL SETUSER app")
	}
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	words := strings.Fields(string(m))
	for i, w := range words {
		if strings.HasPrefix(w, ">") {
			words[i] = ">pw"
		}
	}
	at.do(words...)
	a, b := open(t, "redis://app:pw@"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://app:pw@"+s.Addr(), pawl.WithTTL(ttl))
	exercise(t, a, b, ttl)
	refused, err := at.c.Do(t.Context(), at.c.B().Arbitrary("ACL", "LOG").Build()).ToArray()
	if err != nil || len(refused) > 0 {
		t.Errorf("%d commands were refused: %v, %v", len(refused), refused, err)
	}
	at.do("ACL", "SETUSER", "nobody", "on", ">pw", "+@connection")
	c, err := pawl.Open(t.Context(), "redis://nobody:pw@"+s.Addr())
	if err == nil {
		_, err = c.Mutex("name").TryLock(t.Context())
		c.Close()
	}
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a user without rights: %v, not ErrDenied", err)
	}
}

// exercise uses everything once: holds of all kinds, also of many concurrent callers, a
// handoff, a renewal, List, Evict and records.
func exercise(t *testing.T, a, b *pawl.Client, ttl time.Duration) {
	t.Helper()
	l := lock(t, a.Mutex("name"))
	got := make(chan *pawl.Lease, 1)
	go func() {
		next, err := b.Mutex("name").Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	outlast(ttl)
	unlock(t, l)
	unlock(t, <-got)
	lockMany(t, a)
	r, err := a.RWMutex("rw").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Semaphore("sem", 3).Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; e.Name == "rw" {
			if err := b.Evict(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d claims are listed", n)
	}
	lost(t, r, 2*ttl)
	unlock(t, p)
	records, err := a.Records()
	if err != nil {
		t.Fatal(err)
	}
	v, err := records.Store(t.Context(), "key", []byte("value"), 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if value, version, err := records.Load(t.Context(), "key"); err != nil || string(value) != "value" || version != v {
		t.Errorf("%q, %d, %v", value, version, err)
	}
}

// lockMany takes and gives back many names concurrently.
func lockMany(t *testing.T, c *pawl.Client) {
	t.Helper()
	var crowd sync.WaitGroup
	for i := range 64 {
		crowd.Go(func() {
			for range 10 {
				l, err := c.Mutex(fmt.Sprint("one of many ", i)).Lock(context.Background())
				if err == nil {
					err = l.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
}
