package etcdlock

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// Clients at some distance wait for one name: each is served once, in the order of the
// line, and nobody loses a place or a lease.
func TestACrowdOfDistantClientsIsServedInOrder(t *testing.T) {
	t.Parallel()
	const crowd = 40
	p := faultproxy.New(t, sharedEtcd(t).Addr())
	direct := engine(t, []string{sharedEtcd(t).Addr()})
	p.Delay(faultproxy.ToServer, 25*time.Millisecond)
	p.Delay(faultproxy.ToClient, 25*time.Millisecond)
	newClient := func() *pawl.Client {
		c := pawl.New(engine(t, []string{p.Addr()}), pawl.WithTTL(20*time.Second))
		t.Cleanup(func() { c.Close() })
		return c
	}
	holder, err := newClient().Mutex("crowd").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards tokens
	var tokens []uint64
	var clients sync.WaitGroup
	for range crowd {
		c := newClient()
		clients.Go(func() {
			l, err := c.Mutex("crowd").Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			tokens = append(tokens, l.Token())
			mu.Unlock()
			if err := l.Unlock(); err != nil {
				t.Errorf("a lease: %v", err)
			}
		})
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		line, err := direct.Line(t.Context(), "crowd")
		if err != nil {
			t.Fatal(err)
		}
		if len(line) == crowd+1 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d in line", len(line))
		}
	}
	if err := holder.Unlock(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	clients.Wait()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("token %d was granted before %d", tokens[i-1], tokens[i])
		}
	}
	if len(tokens) != crowd {
		t.Errorf("%d of %d were served", len(tokens), crowd)
	}
}
