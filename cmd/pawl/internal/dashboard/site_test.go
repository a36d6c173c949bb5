package dashboard

import (
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// testTimeout bounds every wait of a test; only failures take that long.
const testTimeout = 30 * time.Second

// A countedStore counts the calls of a client.
type countedStore struct {
	*pawl.Client
	lists, lines atomic.Int64

	mu     sync.Mutex // guards listed
	listed []time.Time
}

func (s *countedStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	s.lists.Add(1)
	s.mu.Lock()
	s.listed = append(s.listed, time.Now())
	s.mu.Unlock()
	return s.Client.List(ctx, prefix)
}

func (s *countedStore) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	s.lines.Add(1)
	return s.Client.Line(ctx, name)
}

// A site is a dashboard that is served on a loopback port.
type site struct {
	t      *testing.T
	d      *Dashboard
	store  *countedStore
	addr   string
	audits chan Unlock
	stop   func()
}

// newSite serves a dashboard of an engine until the test ends. change may change its
// options.
func newSite(t *testing.T, e driver.Engine, change func(*Options)) *site {
	t.Helper()
	s := &site{t: t, store: &countedStore{Client: newClient(t, e, "dash@host pid 1 test")}, audits: make(chan Unlock, 100)}
	server := httptest.NewUnstartedServer(nil)
	s.addr = server.Listener.Addr().String()
	o := Options{
		Store: s.store, Shown: "mem:", Explain: func(err error) string { return driver.OneLine(err.Error()) },
		Port: server.Listener.Addr().(*net.TCPAddr).Port, Audit: func(u Unlock) { s.audits <- u },
	}
	if change != nil {
		change(&o)
	}
	s.d = New(o)
	server.Config.Handler = s.d.Handler()
	server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	first, ended := make(chan error, 1), make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		s.d.Run(ctx, func(err error) { first <- err })
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		server.Close()
	})
	t.Cleanup(s.stop)
	select {
	case <-first:
	case <-time.After(testTimeout):
		t.Fatal("the store was never listed")
	}
	return s
}

func newClient(t *testing.T, e driver.Engine, note string) *pawl.Client {
	t.Helper()
	c := pawl.New(e, pawl.WithNote(note))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newMemory(t *testing.T) driver.Engine {
	e := memlock.New()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// hold holds a mutex, and queue waits for one, until the test ends.
func hold(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func queue(t *testing.T, c *pawl.Client, name string) {
	t.Helper()
	before, err := c.Line(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // the cleanup waits for it
		defer close(ended)
		_, _ = c.Mutex(name).Lock(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	eventually(t, "the claim waits", func() bool {
		line, err := c.Line(t.Context(), name)
		return err == nil && len(line) > len(before)
	})
}

// eventually polls until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// An answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// get sends a request; change may change it.
func (s *site) get(path string, change func(*http.Request)) answer {
	s.t.Helper()
	return s.do("GET", path, "", change)
}

func (s *site) do(method, path, body string, change func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}
