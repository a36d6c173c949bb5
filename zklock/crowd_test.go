package zklock

import (
	"slices"
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
	path := pathOf(t)
	p := faultproxy.New(t, oneServer(t))
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	p.Delay(faultproxy.ToServer, 25*time.Millisecond)
	p.Delay(faultproxy.ToClient, 25*time.Millisecond)
	newClient := func() *pawl.Client {
		c := pawl.New(connect(t, []string{p.Addr()}, WithPath(path)), pawl.WithTTL(20*time.Second))
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

// Claims of one process come to wait in one line together. Each read of it is for all who
// came before it: otherwise those of thousands, each of thousands, would delay a renewal.
func TestClaimsThatComeTogetherReadTheirLineTogether(t *testing.T) {
	t.Parallel()
	const crowd = 300
	p := faultproxy.New(t, oneServer(t))
	p.Delay(faultproxy.ToClient, 25*time.Millisecond)
	n := &counter{}
	s := open(t, connect(t, []string{p.Addr()}, WithPath(pathOf(t)), WithDialer(n.dial)), time.Minute)
	hold(t, s, mutex())
	n.take()
	place := make([]int, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			st, err := s.Enter(t.Context(), mutex())
			if err != nil || st.Held {
				t.Errorf("behind a holder: %+v, %v", st, err)
			}
			place[i] = st.Ahead
		})
	}
	all.Wait()
	if _, ops := n.take(); ops[opGetChildren] == 0 || ops[opGetChildren] > crowd/4 {
		t.Errorf("%d claims read their line %d times", crowd, ops[opGetChildren])
	}
	slices.Sort(place)
	for i, ahead := range place {
		if ahead != i+1 {
			t.Fatalf("%d are ahead of place %d", ahead, i+1)
		}
	}
}
