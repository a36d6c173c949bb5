package etcdlock

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

func withLease(s *session) clientv3.OpOption { return clientv3.WithLease(s.lease) }

// listening waits until the server has the watches of one who waits: the anchor of its
// stream, on the one ahead and, in time, on its own key. There may be more, of which
// the client has forgotten.
func listening(t testing.TB, server *testserver.Server) {
	t.Helper()
	awaitWatches(t, server, "3 or more", func(n int) bool { return n >= 3 })
}

// watching waits until the server serves n watches.
func watching(t testing.TB, server *testserver.Server, n int) {
	t.Helper()
	awaitWatches(t, server, fmt.Sprint(n), func(got int) bool { return got == n })
}

func awaitWatches(t testing.TB, server *testserver.Server, what string, right func(int) bool) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		got := watches(t, server)
		if right(got) {
			return
		}
		if time.Since(start) > 4*soon {
			t.Fatalf("the server has %d watches, not %s", got, what)
		}
	}
}

func watches(t testing.TB, server *testserver.Server) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	reply, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
		if tail, ok := strings.CutPrefix(lines.Text(), "etcd_debugging_mvcc_watcher_total "); ok {
			var n float64
			if _, err := fmt.Sscan(tail, &n); err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatal("the server does not say how many watches it has")
	return 0
}

func TestAWatchEndsWithItsClaim(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	holder := open(t, e, unbeaten)
	ca := mutex("name")
	hold(t, holder, ca)
	const n = 20
	ctx, cancel := context.WithCancel(t.Context())
	var waits []*promise[driver.Standing]
	var s [n]*session
	var cs [n]driver.Claim
	for i := range n {
		s[i], cs[i] = open(t, e, unbeaten), mutex("name")
		st := wait(t, s[i], cs[i])
		waits = append(waits, begin(t, func() (driver.Standing, error) { return until(ctx, s[i], cs[i], st) }))
	}
	const each = 2 // the one ahead and in time its own key
	watching(t, server, 1+each*n)
	cancel()
	for _, w := range waits {
		_, err := w.within(t, soon, "an Await that was cancelled")
		expect(t, "Await", err, context.Canceled)
	}
	// One is held, one is evicted, a session is closed, and the others leave.
	leave(t, holder, ca)
	if st, err := until(t.Context(), s[0], cs[0], driver.Standing{}); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
	watching(t, server, 1+each*(n-1))
	s[n-1].unsure(time.Now(), s[n-1].find(cs[n-1])) // it is remembered until its Enter can no longer land
	if _, err := e.client.Delete(t.Context(), s[n-1].find(cs[n-1]).key); err != nil {
		t.Fatal(err)
	}
	if st, err := until(t.Context(), s[n-1], cs[n-1], driver.Standing{}); err != nil || !st.Gone {
		t.Errorf("Await: %+v, %v", st, err)
	}
	watching(t, server, 1+each*(n-2))
	if err := s[n-2].Close(t.Context()); err != nil {
		t.Error(err)
	}
	watching(t, server, 1+each*(n-3))
	// The client forgets a watch that is cancelled before the server has confirmed it,
	// and ends it there when it is told of its key: which is when the claim leaves.
	for i := range n - 2 {
		leave(t, s[i], cs[i])
	}
	watching(t, server, 1)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	watching(t, server, 0)
}

// A stream begins one watch after the other. Over a long way many take longer than any
// one may, and none of them is taken for a sign that the stream is silent.
func TestManyWatchesOverALongWayAllBegin(t *testing.T) {
	t.Parallel()
	p := faultproxy.New(t, common(t).Addr())
	e := engine(t, []string{p.Addr()})
	s := open(t, e, unbeaten)
	hold(t, s, mutex("name"))
	const n, limit = 150, time.Second
	p.Delay(faultproxy.Both, 5*time.Millisecond)
	begun := time.Now()
	var all []*promise[*ear]
	for range n {
		all = append(all, begin(t, func() (*ear, error) { return e.listen(s.begun, e.space.line("name"), limit) }))
	}
	for _, one := range all {
		if _, err := one.within(t, 6*soon, "a watch"); err != nil {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	}
	if took := time.Since(begun); took < limit {
		t.Errorf("all began within %v: nothing was shown", took)
	}
}
