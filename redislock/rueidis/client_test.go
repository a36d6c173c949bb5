package rueidis_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func mutex(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
}

func session(t *testing.T, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// operator makes a client for an operator's commands.
func operator(t *testing.T, addr string) redis.Client {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAServerThatForbidsScriptsIsUsedWithoutThem(t *testing.T) {
	t.Parallel()
	rights := []string{"ACL", "SETUSER", "bare", "on", ">secret", "~*", "+@all", "-@scripting"}
	s := testserver.Valkey(t)
	admin := operator(t, s.Addr())
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
	admin = operator(t, old.Addr())
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
