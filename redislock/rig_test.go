package redislock_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/redislock/rueidis"
)

// open opens a client on a URL, as another process would.
func open(t *testing.T, url string, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// proxied starts a server behind a proxy.
func proxied(t *testing.T, args ...string) (*testserver.Server, *faultproxy.Proxy) {
	t.Helper()
	s := testserver.Redis(t, args...)
	return s, faultproxy.New(t, s.Addr())
}

// mend repairs a link: a client that is closed while its link is dead waits for replies
// until its timeouts.
func mend(p *faultproxy.Proxy) {
	p.Heal()
	p.Reset()
}

// A console is a connection for commands of an operator.
type console struct {
	t *testing.T
	c redis.Client
}

func newConsole(t *testing.T, addr string) *console {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &console{t, c}
}

// try sends a command.
func (c *console) try(words ...string) (string, error) {
	m, err := c.c.Do(context.Background(), c.c.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		if redis.IsRedisNil(err) {
			return "", nil
		}
		return "", err
	}
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10), nil
	}
	return m.ToString()
}

// do sends a command that must succeed.
func (c *console) do(words ...string) string {
	c.t.Helper()
	answer, err := c.try(words...)
	if err != nil {
		c.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return answer
}

func lock(t *testing.T, m *pawl.Mutex) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

func unlock(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// steady is a TTL that is renewed in time on a machine that stalls for a moment.
const steady = 4 * time.Second

// outlast waits until a lease would have expired that was renewed only once.
func outlast(ttl time.Duration) { time.Sleep(ttl * 3 / 2) }

// until waits until ok, at most for limit. Time in which the machine stalls does not count.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if ok() {
		return
	}
	w := startWatch()
	defer w.end()
	for !ok() {
		if w.spent() > limit {
			t.Fatalf("after %v: not %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A watch counts the time in which the machine did not stall.
type watch struct {
	began time.Time
	stood *stalltest.Watch
}

func startWatch() watch { return watch{time.Now(), stalltest.Start()} }

func (w watch) spent() time.Duration { return time.Since(w.began) - w.stood.Lost() }
func (w watch) end()                 { _ = w.stood.End() }

// lost waits until a lease has ended, at most for limit, and fails unless it was lost. Time
// in which the machine stalls does not count.
func lost(t *testing.T, l *pawl.Lease, limit time.Duration) {
	t.Helper()
	w := startWatch()
	defer w.end()
	for {
		select {
		case <-l.Context().Done():
			if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
				t.Errorf("the lease ended with %v, not ErrLost", cause)
			}
			return
		case <-time.After(max(limit-w.spent(), time.Millisecond)):
			if w.spent() > limit && l.Context().Err() == nil {
				t.Errorf("the lease did not end within %v", limit)
				return
			}
		}
	}
}

// matching selects requests that contain text.
func matching(text string) faultproxy.SwallowOption {
	return faultproxy.Matching(func(request []byte) bool { return strings.Contains(string(request), text) })
}
