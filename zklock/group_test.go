package zklock

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A scale weighs what its connections carry.
type scale struct{ in, out atomic.Int64 }

func (n *scale) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	return &weighed{conn, n}, err
}

type weighed struct {
	net.Conn
	n *scale
}

func (c *weighed) Read(b []byte) (int, error) {
	k, err := c.Conn.Read(b)
	c.n.in.Add(int64(k))
	return k, err
}

func (c *weighed) Write(b []byte) (int, error) {
	k, err := c.Conn.Write(b)
	c.n.out.Add(int64(k))
	return k, err
}

// Each of many claims that wait for a permit reads the line once, as it comes, and
// then hears only of those right ahead of it.
func TestASemaphoreOfManyPermitsDoesNotWakeEveryWaiter(t *testing.T) {
	t.Parallel()
	const waiting, clients = 400, 20
	for _, limit := range []int{4, 16, 64} {
		t.Run(fmt.Sprintf("%d permits", limit), func(t *testing.T) {
			t.Parallel()
			n := &scale{}
			e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)), WithDialer(n.dial))
			sessions := make([]*session, clients)
			for i := range sessions {
				sessions[i] = open(t, e, 2*time.Minute) // there are no beats
			}
			var holders []driver.Claim
			for range limit {
				c := claim(1, limit)
				hold(t, sessions[0], c)
				holders = append(holders, c)
			}
			weighed := func() int64 { return n.in.Load() + n.out.Load() }
			before := weighed()
			var busy, most atomic.Int64
			var all sync.WaitGroup
			for i := range waiting {
				c, s := claim(1, limit), sessions[i%clients]
				stand(t, s, c)
				all.Go(func() {
					st, err := s.Await(t.Context(), c, driver.Standing{})
					if err != nil || !st.Held {
						t.Errorf("Await: %+v, %v", st, err)
					}
					if k := busy.Add(1); k > int64(limit) {
						most.Store(k)
					}
					busy.Add(-1)
					if err := s.Leave(t.Context(), c); err != nil {
						t.Errorf("Leave: %v", err)
					}
				})
			}
			entered := weighed()
			began := time.Now()
			for _, c := range holders {
				leave(t, sessions[0], c)
			}
			all.Wait()
			took := time.Since(began) / waiting
			t.Logf("%d kB to stand in line, %d kB to be served, %v each", (entered-before)/waiting>>10, (weighed()-entered)/waiting>>10, took)
			if most.Load() > 0 {
				t.Errorf("%d held at once, of %d", most.Load(), limit)
			}
			const line = waiting * 40 // bytes, to read it once
			if each := (weighed() - before) / waiting; each > 4*line {
				t.Errorf("%d bytes for each claim; the line has %d", each, line)
			}
		})
	}
}

// While all watched blockers stand there is no room, and one less would leave room.
func TestTheWatchedBlockersAreJustTooMany(t *testing.T) {
	t.Parallel()
	const limit = 12
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		n := &line{}
		for i := range 20 {
			n.nodes = append(n.nodes, node{name: fmt.Sprint(i), need: 1 + rnd.IntN(4), limit: limit})
		}
		for i, c := range n.nodes {
			v := n.place(i)
			if v.held {
				continue
			}
			used := c.need
			for _, w := range v.blockers[:len(v.blockers)-1] {
				used += w.need
			}
			last := v.blockers[len(v.blockers)-1]
			if !v.group || used > limit || used+last.need <= limit {
				t.Fatalf("seed %d, claim %d: %d of %d without the last, which needs %d", seed, i, used, limit, last.need)
			}
			ahead := slices.Concat(v.blockers, v.spare)
			slices.Reverse(ahead)
			if !v.spareComplete || !slices.Equal(ahead, n.nodes[:i]) {
				t.Fatalf("seed %d, claim %d: ahead of it are %+v", seed, i, ahead)
			}
		}
	}
}
