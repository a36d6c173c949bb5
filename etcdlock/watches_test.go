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
	"github.com/pawl-go/pawl/internal/testserver"
)

func withLease(s *session) clientv3.OpOption { return clientv3.WithLease(s.lease.ID) }

// listening waits until the server has the watches of one waiter: the one that keeps the
// stream open, on the claim ahead and, later, on its own key. There may be more, which
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
	t.Fatal("the server does not report its number of watches")
	return 0
}

func TestAWatchEndsWithItsClaim(t *testing.T) {
	t.Parallel()
	server := testserver.Etcd(t)
	e := engine(t, []string{server.Addr()})
	holder := open(t, e, longTTL)
	ca := mutex("name")
	hold(t, holder, ca)
	const n = 20
	ctx, cancel := context.WithCancel(t.Context())
	var waits []*promise[driver.Standing]
	var s [n]*session
	var cs [n]driver.Claim
	for i := range n {
		s[i], cs[i] = open(t, e, longTTL), mutex("name")
		st := wait(t, s[i], cs[i])
		waits = append(waits, begin(t, func() (driver.Standing, error) { return until(ctx, s[i], cs[i], st) }))
	}
	const each = 2 // on the claim ahead and, later, on its own key
	watching(t, server, 1+each*n)
	cancel()
	for _, w := range waits {
		_, err := w.within(t, soon, "an Await that was cancelled")
		expect(t, "Await", err, context.Canceled)
	}
	// One claim is held, one is evicted, one session is closed, and the other claims leave.
	leave(t, holder, ca)
	if st, err := until(t.Context(), s[0], cs[0], driver.Standing{}); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
	watching(t, server, 1+each*(n-1))
	s[n-1].enterUnanswered(time.Now(), s[n-1].find(cs[n-1])) // it is remembered until its Enter can no longer arrive
	if _, err := clientOf(e).Delete(t.Context(), s[n-1].find(cs[n-1]).key); err != nil {
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
	// The client forgets a watch that is cancelled before the server has confirmed it, and
	// cancels it at the server with its first event, which is when the claim leaves.
	for i := range n - 2 {
		leave(t, s[i], cs[i])
	}
	watching(t, server, 1)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	watching(t, server, 0)
}
