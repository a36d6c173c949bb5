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

func withLease(s *session) clientv3.OpOption { return clientv3.WithLease(s.lease) }

// watching waits until the server serves n watches.
func watching(t testing.TB, server *testserver.Server, n int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		got := watches(t, server)
		if got == n {
			return
		}
		if time.Since(start) > 4*soon {
			t.Fatalf("the server has %d watches, not %d", got, n)
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

func TestAWatchEndsWithItsAwait(t *testing.T) {
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
	watching(t, server, 1+2*n) // the anchor, and for each the one ahead and in time its own key
	cancel()
	for _, w := range waits {
		_, err := w.within(t, soon, "an Await that was cancelled")
		expect(t, "Await", err, context.Canceled)
	}
	// A wait that ends by its turn.
	leave(t, holder, ca)
	if st, err := until(t.Context(), s[0], cs[0], driver.Standing{}); err != nil || !st.Held {
		t.Errorf("Await: %+v, %v", st, err)
	}
	// The client forgets a watch that is cancelled before the server has confirmed it,
	// and ends it there when it is told of its key: which is when the claim leaves.
	for i := range n {
		leave(t, s[i], cs[i])
	}
	watching(t, server, 1)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	watching(t, server, 0)
}
