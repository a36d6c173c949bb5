package faultdial_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/testserver"

	redis "github.com/redis/rueidis"

	_ "github.com/pawl-go/pawl/redislock/rueidis" // the redis scheme
)

// The reply to Lock's request is swallowed: the server has granted, and the core asks
// again and holds once.
func TestALockWhoseReplyIsSwallowedIsHeldOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	link := faultdial.New()
	store := "redis://" + server.Addr()
	c, err := pawl.Open(driver.WithDialer(t.Context(), link.Dial), store, pawl.WithTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := pawl.Open(t.Context(), store) // beside the link
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	unlock(t, lock(t, c, "warm"))

	was := scriptCalls(t, server.Addr())
	link.SwallowReply()
	l := lock(t, c, "job")
	if n := scriptCalls(t, server.Addr()) - was; n < 2 {
		t.Errorf("the server was asked %d times", n)
	}
	if counts := link.Counts(); counts.Swallowed == 0 || counts.Reset == 0 {
		t.Errorf("nothing was swallowed: %+v", counts)
	}
	line, err := other.Line(t.Context(), "job")
	if err != nil || len(line) != 1 || line[0].ID != l.ID() || !line[0].Held {
		t.Errorf("the line is %+v, %v, and %s holds", line, err, l.ID())
	}
	if l, err := other.Mutex("job").TryLock(t.Context()); err == nil {
		t.Errorf("held twice, also with token %d", l.Token())
	}
	link.Heal()
	unlock(t, l)
	if line, err := other.Line(t.Context(), "job"); err != nil || len(line) != 0 {
		t.Errorf("the line is %+v, %v after Unlock", line, err)
	}
}

// A holder behind a cut is told of the loss before its rival holds.
func TestAHolderBehindACutLosesTheLockBeforeAnotherHoldsIt(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	link := faultdial.New()
	store := "redis://" + server.Addr()
	c, err := pawl.Open(driver.WithDialer(t.Context(), link.Dial), store, pawl.WithTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := pawl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l := lock(t, c, "job")
	link.Cut(faultdial.Both)
	rival := lock(t, other, "job")
	if l.Err() == nil {
		t.Error("two hold")
	}
	unlock(t, rival)
	link.Heal()
	unlock(t, lock(t, c, "job"))
}

func lock(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func unlock(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// scriptCalls returns how often the server has run a script.
func scriptCalls(t *testing.T, addr string) (n int) {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	info, err := c.Do(t.Context(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if strings.HasPrefix(name, "cmdstat_eval") {
			calls, _, _ := strings.Cut(rest, ",")
			one, err := strconv.Atoi(calls)
			if err != nil {
				t.Fatal(fmt.Errorf("%q: %w", line, err))
			}
			n += one
		}
	}
	return n
}
