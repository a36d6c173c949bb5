//go:build !race

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// fill enters two claims on each of many names, as two clients.
func fill(t *testing.T, e driver.Engine, names int) {
	t.Helper()
	for n, who := range []string{"holder", "waiter"} {
		session, err := e.Open(t.Context(), driver.SessionOptions{ID: fmt.Sprintf("%032x", n), TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			_ = session.Close(ctx)
		})
		work := make(chan int)
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() { // ends when work is closed
				for i := range work {
					c := driver.Claim{ID: fmt.Sprintf("%016x%016x", n+1, i), Try: 1, Name: fmt.Sprintf("orders/%05d", i), Need: 1, Limit: 1, Queue: true, Note: who + "@host-7 pid 4121 deploy.sh (release 4.2)"}
					if _, err := session.Enter(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range names {
			work <- i
		}
		close(work)
		group.Wait()
	}
}

func TestNoRaceTenThousandNamesAreShownAtOnce(t *testing.T) {
	const names = 10_000
	server := testserver.Redis(t)
	c := openRedis(t, server, "dash@h pid 2 x")
	fill(t, c.Engine(), names)
	start := time.Now()
	s := newSite(t, newMemory(t), func(o *Options) { o.Store = c })
	first := s.get("/", nil)
	cold := time.Since(start)
	st, _ := s.d.hub.current()
	if held, waiting := st.snap.counts(); held != names || waiting != names {
		t.Fatalf("%d held and %d waiting", held, waiting)
	}
	t.Logf("listing %v; from the start to the first page %v, %d KiB", st.took, cold, len(first.body)>>10)
	if strings.Count(first.body, `class="holder"`) != rowsPerPage || !strings.Contains(first.body, "1 to 100 of 10000") {
		t.Errorf("the first page has %d rows", strings.Count(first.body, `class="holder"`))
	}
	if len(first.body) > 500<<10 {
		t.Errorf("the first page has %d KiB", len(first.body)>>10)
	}
	for _, path := range []string{"/", "/?q=orders/*9", "/?q=" + strings.Repeat("x", 200), "/tree", "/name?name=orders/00042", "/holder?session=" + fmt.Sprintf("%032x", 0), "/metrics", "/api/v1/locks"} {
		best := testTimeout
		var size int
		for range 3 { // the best: others work on this machine
			from := time.Now()
			got := s.get(path, nil)
			if best, size = min(best, time.Since(from)), len(got.body); got.status != 200 {
				t.Fatalf("%s: %d", path, got.status)
			}
		}
		t.Logf("%-40s %8v %6d KiB", strings.TrimRight(path, "x"), best.Round(time.Millisecond), size>>10)
		if best > time.Second && path != "/api/v1/locks" { // six megabytes, for programs
			t.Errorf("%s takes %v", path, best)
		}
	}
}

// A hundred programs that read slowly took fifteen megabytes each.
func TestNoRaceSlowReadersShareTheListing(t *testing.T) {
	const claims, readers, most = 50_000, 100, 64 << 20
	lines := map[string]*line{"x": newLine("x", crowd("x", strings.Repeat("n", 100), claims), time.Now(), nil)}
	d := New(Options{})
	d.hub.publish(&state{snap: newSnapshot(time.Now(), lines)})
	server := httptest.NewServer(http.HandlerFunc(d.locks))
	defer server.Close()
	before := heap()
	refused := 0
	for range readers {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		status, err := bufio.NewReaderSize(conn, 16).ReadString('\n') // and no more
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(status, "503") {
			refused++
		}
	}
	if grown := heap() - before; grown > most || refused != readers-maxAnswers {
		t.Errorf("%d MiB more for %d slow readers, of which %d were refused", grown>>20, readers, refused)
	}
}
