package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/soaktest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
)

// A storm injects faults into servers that write every command to disk, and into the links
// to them, while mutexes, readers, writers and permits are used. No fault may let two
// clients hold the same lock, repeat a token, or leave a name that no client holds and none
// can get.
type storm struct {
	t       *testing.T
	ttl     time.Duration
	clients []*pawl.Client
	faults  map[string]func(pause func())
	made    func() int // connections made so far; nil: not counted

	tallies map[string]*tally
	grants  atomic.Int64
	losses  atomic.Int64
	longest atomic.Int64 // wait, ns

	counts map[string]int // of faults

	mu     sync.Mutex // guards tokens
	tokens map[string]uint64
}

const stormTTL = time.Second

// maxMade is how many connections one fault may cost. All connections may be lost by it,
// and their replacements be given up, but their number must not keep growing. Usually it
// is ten.
const maxMade = 60

var lasting = []string{"--appendonly", "yes", "--appendfsync", "always"}

func newStorm(t *testing.T, ttl time.Duration) *storm {
	return &storm{t: t, ttl: ttl, faults: map[string]func(func()){}, tallies: map[string]*tally{}, tokens: map[string]uint64{}, counts: map[string]int{}}
}

// serverStorm is one on a single server; each client has its own link.
func serverStorm(t *testing.T) *storm {
	m, s := newStorm(t, stormTTL), testserver.Redis(t, lasting...)
	var links []*faultproxy.Proxy
	for range 4 {
		p := faultproxy.New(t, s.Addr())
		links = append(links, p)
		m.clients = append(m.clients, open(t, "redis://"+p.Addr(), pawl.WithTTL(stormTTL)))
	}
	m.made = func() (n int) {
		for _, p := range links {
			n += p.Reached()
		}
		return n
	}
	link := func() *faultproxy.Proxy { return links[rand.N(len(links))] }
	holes := map[string]faultproxy.Direction{"silent": faultproxy.Both, "deaf": faultproxy.ToServer, "mute": faultproxy.ToClient}
	for name, dir := range holes {
		m.faults[name] = func(pause func()) {
			p := link()
			p.BlackHole(dir)
			pause()
			p.Reset()
			p.Heal()
		}
	}
	m.faults["cut"] = func(func()) { link().Reset() }
	m.faults["swallowed"] = func(func()) {
		p := link()
		p.SwallowReplies(1, faultproxy.ThenCut(), matching("EVALSHA"))
		time.Sleep(stormTTL / 20)
		p.Heal()
	}
	m.onServer(s, func() {})
	return m
}

// clusterStorm is one on a cluster whose slots are also moved.
func clusterStorm(t *testing.T) *storm {
	m := newStorm(t, stormTTL)
	s := testserver.RedisCluster(t, append([]string{"--cluster-require-full-coverage", "no"}, lasting...)...)
	for range 3 {
		m.clients = append(m.clients, open(t, "redis-cluster://"+strings.Join(s.Addrs(), ","), pawl.WithTTL(stormTTL)))
	}
	m.faults["moved"] = func(func()) {
		slot := s.Slot("pawl:" + []string{"mutex0", "rw0", "permits0"}[rand.N(3)])
		to := s.Nodes[rand.N(len(s.Nodes))]
		if to == s.Owner(slot) {
			return
		}
		move := s.BeginMove(slot, to)
		for len(move.Some(1)) > 0 {
			time.Sleep(time.Millisecond)
		}
		move.Finish()
	}
	m.onServer(s.Nodes[0], s.AwaitOK)
	return m
}

// clockStorm is one on a server whose clock is set back again and again, by up to three TTLs.
func clockStorm(t *testing.T) *storm {
	m, clock := newStorm(t, stormTTL), testserver.NewClock(t)
	s := testserver.RedisOn(t, clock, lasting...)
	for range 4 {
		m.clients = append(m.clients, open(t, "redis://"+s.Addr(), pawl.WithTTL(stormTTL)))
	}
	m.faults["set back"] = func(func()) {
		for range 20 {
			clock.Step(-rand.N(3 * stormTTL))
			time.Sleep(rand.N(stormTTL / 10))
		}
	}
	return m
}

// sentinelStorm is one behind sentinels. Both replicas confirm every grant and renewal, so
// none of them lacks one when it is promoted. Leases outlast the three seconds of that.
func sentinelStorm(t *testing.T) *storm {
	m, s := newStorm(t, 8*time.Second), testserver.RedisSentinel(t, lasting...)
	for range 2 {
		m.clients = append(m.clients, open(t, sentinelURL(s)+"?wait=2", pawl.WithTTL(m.ttl)),
			onFailoverClient(t, s, goredisclient.FailoverOptions{MaxRetries: -1, ReadTimeout: time.Second}, m.ttl, redislock.WithWait(2, time.Second)))
	}
	m.faults["master replaced"] = func(func()) {
		master := s.AwaitMaster()
		master.Kill()
		s.AwaitMaster(master)
		master.Restart()
		s.AwaitWhole()
	}
	some := map[string]func() *testserver.Server{
		"master":   func() *testserver.Server { return s.AwaitMaster() },
		"node":     func() *testserver.Server { return s.Nodes[rand.N(len(s.Nodes))] },
		"sentinel": func() *testserver.Server { return s.Sentinels[rand.N(len(s.Sentinels))] },
	}
	for name, one := range some {
		m.faults[name+" stopped"] = func(pause func()) {
			at := one()
			at.Pause()
			pause() // two seconds of silence are a failure to the sentinels
			at.Resume()
			s.AwaitWhole()
		}
	}
	return m
}

// onServer adds the faults of a server.
func (m *storm) onServer(s *testserver.Server, well func()) {
	m.faults["killed"] = func(pause func()) {
		s.Kill()
		pause()
		s.Restart()
		well()
	}
	m.faults["stopped"] = func(pause func()) {
		s.Pause()
		pause()
		s.Resume()
		well()
	}
	at := newConsole(m.t, s.Addr())
	m.faults["forgot scripts"] = func(func()) { _, _ = at.try("SCRIPT", "FLUSH") }
	m.faults["lost connections"] = func(func()) { _, _ = at.try("CLIENT", "KILL", "TYPE", "normal") }
}

// use takes and gives back one lock repeatedly until ctx ends.
func (m *storm) use(ctx context.Context, y *tally, need int, lock func(context.Context) (*pawl.Lease, error)) {
	for ctx.Err() == nil {
		begun := time.Now()
		l, err := lock(ctx)
		for took, was := int64(time.Since(begun)), m.longest.Load(); took > was && !m.longest.CompareAndSwap(was, took); {
			was = m.longest.Load()
		}
		if err != nil {
			time.Sleep(m.ttl / 100)
			continue
		}
		m.grants.Add(1)
		y.took(l, need)
		if need == y.limit && l.Err() == nil {
			m.mu.Lock()
			if l.Fence() <= m.tokens[y.name] {
				m.t.Errorf("%s: token %d after %d", y.name, l.Fence(), m.tokens[y.name])
			}
			m.tokens[y.name] = l.Fence()
			m.mu.Unlock()
		}
		hold := rand.N(10 * time.Millisecond)
		if rand.N(50) == 0 {
			hold = rand.N(2 * m.ttl)
		}
		select {
		case <-l.Context().Done():
			m.losses.Add(1)
		case <-time.After(hold):
		}
		y.left(l)
		_ = l.Unlock() // lost or unknown if the server was unreachable
	}
}

func (m *storm) start(ctx context.Context, wg *sync.WaitGroup) {
	for i := range 2 {
		for name, limit := range map[string]int{"mutex": 1, "rw": 1000, "permits": 3} {
			y := &tally{t: m.t, name: fmt.Sprint(name, i), limit: limit, held: map[*pawl.Lease]int{}}
			m.tallies[y.name] = y
			for j, c := range m.clients {
				switch {
				case limit == 1:
					wg.Go(func() { m.use(ctx, y, 1, c.Mutex(y.name, pawl.WithFair()).Lock) })
				case limit == 1000 && j == 0:
					wg.Go(func() { m.use(ctx, y, 1000, c.RWMutex(y.name).Lock) })
				case limit == 1000:
					wg.Go(func() { m.use(ctx, y, 1, c.RWMutex(y.name).RLock) })
				default:
					wg.Go(func() {
						m.use(ctx, y, 1+j%2, func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(y.name, 3).Acquire(ctx, 1+j%2) })
					})
				}
			}
		}
	}
}

// rage injects faults, one at a time, for d.
func (m *storm) rage(d time.Duration) {
	ctx, cancel := context.WithTimeout(m.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	m.start(ctx, &wg)
	var names []string
	for name := range m.faults {
		names = append(names, name)
	}
	for ctx.Err() == nil {
		name := names[rand.N(len(names))]
		m.counts[name]++
		m.faults[name](func() { time.Sleep(rand.N(2 * m.ttl)) })
		time.Sleep(rand.N(m.ttl))
	}
	wg.Wait()
	m.t.Logf("%d grants, %d lost, the longest wait %v; faults %v", m.grants.Load(), m.losses.Load(), time.Duration(m.longest.Load()).Round(time.Millisecond), m.counts)
	if m.grants.Load() < int64(d/m.ttl) {
		m.t.Errorf("only %d grants in %v", m.grants.Load(), d)
	}
	if m.made != nil {
		faults := 0
		for _, n := range m.counts {
			faults += n
		}
		if n := m.made(); n > maxMade*faults {
			m.t.Errorf("%d connections were made for %d faults", n, faults)
		} else {
			m.t.Logf("%d connections were made for %d faults", n, faults)
		}
	}
	for _, y := range m.tallies {
		ctx, cancel := context.WithTimeout(m.t.Context(), 15*m.ttl)
		c := m.clients[0]
		lock := map[int]func(context.Context) (*pawl.Lease, error){1: c.Mutex(y.name).Lock, 1000: c.RWMutex(y.name).Lock,
			3: func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(y.name, 3).Acquire(ctx, 3) }}[y.limit]
		l, err := lock(ctx)
		cancel()
		if err != nil {
			m.t.Errorf("%s, which no client holds: %v", y.name, err)
			continue
		}
		_ = l.Unlock() // otherwise it expires soon
	}
}

func TestRandomFaultsOfAServer(t *testing.T) {
	t.Parallel()
	serverStorm(t).rage(10 * time.Second)
}

func TestRandomFaultsOfACluster(t *testing.T) {
	t.Parallel()
	clusterStorm(t).rage(10 * time.Second)
}

// TestSoakRandomFaultsOfAServer runs for as long as PAWL_SOAK says.
func TestSoakRandomFaultsOfAServer(t *testing.T) { soak(t, serverStorm) }

// TestSoakRandomFaultsOfACluster runs for as long as PAWL_SOAK says.
func TestSoakRandomFaultsOfACluster(t *testing.T) { soak(t, clusterStorm) }

// TestSoakRandomFaultsBehindSentinels runs for as long as PAWL_SOAK says.
func TestSoakRandomFaultsBehindSentinels(t *testing.T) { soak(t, sentinelStorm) }

// TestSoakTheClockIsSetBack runs for as long as PAWL_SOAK says.
func TestSoakTheClockIsSetBack(t *testing.T) { soak(t, clockStorm) }

// Masters are killed and come back empty while the sentinels replace them: clients go on
// there until a replica is promoted that has the line of before. Exclusion is lost by that,
// but who is let in later has the higher token. Two masters grant for a moment, and whom
// they tell first is a matter of chance, so a token that is older by less than a second is
// not counted.
func TestSoakTokensGrowWhileMastersRestartEmpty(t *testing.T) {
	length := soaktest.Length(t)
	s := testserver.RedisSentinel(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type grants struct {
		sync.Mutex
		last     uint64 // the highest token
		n, older int
	}
	var names [4]grants
	var work sync.WaitGroup
	for range 6 {
		c := open(t, sentinelURL(s), pawl.WithTTL(20*time.Second)) // waiters outlive the failover
		for i := range names {
			g := &names[i]
			work.Go(func() {
				for ctx.Err() == nil {
					l, err := c.Mutex(fmt.Sprint("name", i)).Lock(ctx)
					if err != nil {
						continue
					}
					g.Lock()
					if g.n++; l.Fence()+uint64(time.Second.Microseconds()) < g.last {
						g.older++
						t.Logf("a grant has token %d after %d", l.Fence(), g.last)
					}
					g.last = max(g.last, l.Fence())
					g.Unlock()
					select {
					case <-l.Context().Done():
					case <-time.After(rand.N(40 * time.Millisecond)):
					}
					_ = l.Unlock() // its server may be gone
				}
			})
		}
	}
	kills := 0
	for begun := time.Now(); time.Since(begun) < length; kills++ {
		time.Sleep(rand.N(2 * time.Second))
		master := s.AwaitMaster()
		master.Kill()
		time.Sleep(1500*time.Millisecond + rand.N(1500*time.Millisecond)) // the sentinels wait for two seconds
		master.Restart()
		s.AwaitWhole()
	}
	cancel()
	work.Wait()
	n, older := 0, 0
	for i := range names {
		n, older = n+names[i].n, older+names[i].older
	}
	t.Logf("%d masters were killed, %d grants", kills, n)
	if older > 0 {
		t.Errorf("%d tokens of %d are older than their grants", older, n)
	}
}

func soak(t *testing.T, start func(*testing.T) *storm) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	start(t).rage(d)
}
