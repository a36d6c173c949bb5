package mysql

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A primary is demoted under a user that may write all the same. It grants and prolongs
// nothing from then on, and what was held ends in time.
func demotedPrimary(t *testing.T, _ string, s *testserver.Server) {
	demoted(t, s, func() *Engine { return openStore(t, s.Addr()+"/pawl", nil) })
	db := openDB(t, s.Addr(), "pawl", "")
	demoted(t, s, func() *Engine {
		e, err := New(db)
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

func demoted(t *testing.T, s *testserver.Server, open func() *Engine) {
	t.Helper()
	const ttl = 2 * time.Second
	admin := openDB(t, s.Addr(), "", "")
	readOnly := func(to string) {
		t.Helper()
		if _, err := admin.Exec("SET GLOBAL read_only = " + to); err != nil {
			t.Fatal(err)
		}
	}
	a, b := openClient(t, open(), pawl.WithTTL(ttl)), openClient(t, open(), pawl.WithTTL(ttl))
	try := map[string]func(ctx context.Context) (*pawl.Lease, error){
		"a name that was used": func(ctx context.Context) (*pawl.Lease, error) { return b.Mutex("used").TryLock(ctx) },
		"a new name":           func(ctx context.Context) (*pawl.Lease, error) { return b.Mutex("new" + rand.Text()).TryLock(ctx) },
		"a reader":             func(ctx context.Context) (*pawl.Lease, error) { return b.RWMutex("read").TryRLock(ctx) },
		"several names":        func(ctx context.Context) (*pawl.Lease, error) { return b.LockAll(ctx, []string{"one", "two"}) },
	}
	works := func() {
		t.Helper()
		for what, lock := range try {
			l, err := lock(t.Context())
			if err == nil {
				err = l.Unlock()
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	works()
	held, err := a.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shared, err := a.RWMutex("shared").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	readOnly("ON")
	defer readOnly("OFF")
	for what, lock := range try {
		ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
		l, err := lock(ctx)
		cancel()
		if err == nil {
			t.Errorf("%s is granted", what)
			_ = l.Unlock()
		} else if !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, l := range map[string]*pawl.Lease{"a mutex": held, "a reader": shared} {
		select {
		case <-l.Context().Done():
		case <-time.After(5 * ttl):
			t.Errorf("%s is held on", what)
			_ = l.Unlock()
		}
	}
	readOnly("OFF")
	works()
}
