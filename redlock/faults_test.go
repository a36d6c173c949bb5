package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A field is servers behind proxies.
type field struct {
	servers []*testserver.Server
	proxies []*faultproxy.Proxy
	prefix  string // of the keys; "" is the usual one
	query   string

	mu      sync.Mutex           // guards what follows
	clients map[int]redis.Client // past the proxies
}

// brief is the query of tests whose leases are short.
const brief = "max-ttl=6s"

// prefixes counts those that were given out.
var prefixes atomic.Int64

// newPrefix returns a prefix of keys that nobody else has on the shared servers.
func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

// newField is a field of servers that other tests use as well, with other keys. Who
// stops one, empties it or sets it up otherwise takes newOwnField.
func newField(t *testing.T, n int, query string) *field {
	t.Helper()
	prefix := newPrefix()
	f := &field{servers: common(t, n), prefix: prefix, query: query + "&prefix=" + prefix}
	f.veil(t)
	f.ripen(t)
	return f
}

// newOwnField is a field of servers that no other test uses.
func newOwnField(t *testing.T, n int, query string) *field {
	t.Helper()
	f := &field{servers: servers(t, n), query: query}
	f.veil(t)
	f.ripen(t)
	return f
}

// veil puts a proxy before each server.
func (f *field) veil(t *testing.T) {
	t.Helper()
	for _, s := range f.servers {
		f.proxies = append(f.proxies, faultproxy.New(t, s.Addr()))
	}
}

// ripen waits until new servers have been there for max-ttl: a moment ago they
// might have lost what they knew.
func (f *field) ripen(t *testing.T) {
	t.Helper()
	query, err := url.ParseQuery(f.query)
	if err != nil {
		t.Fatal(err)
	}
	ttl, err := time.ParseDuration(query.Get("max-ttl"))
	if err != nil {
		t.Fatal(err)
	}
	up := regexp.MustCompile(`uptime_in_seconds:(\d+)`)
	for i := range f.servers {
		for {
			info, err := f.at(t, i, "INFO", "server").ToString()
			m := up.FindStringSubmatch(info)
			if err != nil || m == nil {
				t.Fatalf("server %d tells %q, %v", i, info, err)
			}
			seconds, _ := strconv.Atoi(m[1]) // digits
			left := ttl + ttl/50 + 2*time.Millisecond - time.Duration(seconds)*time.Second
			if left < 0 {
				break
			}
			time.Sleep(min(left+time.Millisecond, time.Second)) // it counts whole ones
		}
	}
}

func (f *field) hosts() (all []string) {
	for _, p := range f.proxies {
		all = append(all, p.Addr())
	}
	return all
}

// url is that of a client of some of the servers, through their proxies.
func (f *field) url(hosts ...string) string {
	return "redlock://" + strings.Join(hosts, ",") + "?" + f.query
}

// key is how the field's quorum calls a key.
func (f *field) key(of string) string { return cmp.Or(f.prefix, "pawl:") + of }

// client opens a client as another process would have.
func (f *field) client(t *testing.T, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), f.url(f.hosts()...), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// at sends one command to one server, past its proxy.
func (f *field) at(t *testing.T, i int, words ...string) redis.RedisResult {
	t.Helper()
	c, err := f.direct(t, i)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(t.Context(), c.B().Arbitrary(words...).Build())
}

// direct returns a client of one server, which lives as long as the test: to make
// one costs as much as a hundred commands.
func (f *field) direct(t *testing.T, i int) (redis.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clients[i]; c != nil {
		return c, nil
	}
	c, err := redis.NewClient(small(f.servers[i].Addr()))
	if err != nil {
		return nil, err
	}
	if f.clients == nil {
		f.clients = map[int]redis.Client{}
	}
	f.clients[i] = c
	t.Cleanup(c.Close)
	return c, nil
}

// small is a client whose connections take little memory, and little time to make.
func small(addr string) redis.ClientOption {
	return redis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		RingScaleEachConn: 8, ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
	}
}

// votes reports whether a server votes: a roll that came back with an old state may
// say so as well.
func (f *field) votes(t *testing.T, i int) bool {
	t.Helper()
	roll, err := f.at(t, i, "HMGET", f.key("\x01q"), "votes", "run").AsStrSlice()
	if err != nil || len(roll) != 2 || roll[0] != "1" || roll[1] == "" {
		return false
	}
	info, err := f.at(t, i, "INFO", "server").ToString()
	return err == nil && strings.Contains(info, "run_id:"+roll[1])
}

// until waits for something that is on its way.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("after %v: not %s", limit, what)
		}
	}
}

func lock(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func unlock(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// T17
func TestAMinorityThatDoesNotAnswerCostsNoTime(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // long for a machine that has much else to do
	f := newField(t, 5, brief)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for holes := 1; holes <= 2; holes++ {
		f.proxies[holes-1].BlackHole(faultproxy.Both)
		var locked, back []time.Duration
		for range 11 {
			began := time.Now()
			l := lock(t, c, "name")
			locked = append(locked, time.Since(began))
			unlock(t, l)
			back = append(back, time.Since(began))
		}
		slices.Sort(locked)
		slices.Sort(back)
		if locked[5] > ttl/10 || back[5] > ttl/5 { // a machine may stall once; who waits for the silent does so each time
			t.Errorf("with %d of 5 silent: locked after %v, given back after %v", holes, locked, back)
		}
		l := lock(t, c, "renewed")
		for range 2 {
			was := l.Deadline()
			until(t, 2*ttl, fmt.Sprintf("renewed with %d of 5 silent", holes), func() bool { return l.Deadline().Sub(was) > ttl/10 || l.Err() != nil })
		}
		unlock(t, l) // says if it was lost
	}
	// A client that is opened now must not wait for them either.
	stalltest.Within(t, ttl/2, "opened and locked beside two silent nodes", func() time.Duration {
		began := time.Now()
		unlock(t, lock(t, f.client(t, pawl.WithTTL(ttl)), "late"))
		return time.Since(began)
	})
}

// T18
func TestAGrantThatTookLongerThanItsLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	f := newField(t, 3, brief)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for _, p := range f.proxies[:2] {
		p.Delay(faultproxy.ToClient, ttl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
	defer cancel()
	if l, err := c.Mutex("name").Lock(ctx); err == nil {
		t.Errorf("locked with %v left by answers that took as long as the lease lives", time.Until(l.Deadline()))
	}
	for _, p := range f.proxies {
		p.Heal()
	}
	unlock(t, lock(t, f.client(t, pawl.WithTTL(ttl)), "name"))
}

// T19: of four nodes each rival gets two, again and again.
func TestATieOfFourEnds(t *testing.T) {
	t.Parallel()
	f := newField(t, 4, brief)
	const rivals, rounds = 4, 10
	done := make(chan error, rivals)
	var inside atomic.Pointer[pawl.Lease]
	for range rivals {
		c := f.client(t, pawl.WithTTL(5*time.Second))
		go func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				l, err := c.Mutex("name").Lock(ctx)
				cancel()
				if err == nil {
					if other := inside.Swap(l); other != nil && other.Err() == nil && l.Err() == nil {
						t.Errorf("two hold the name, with tokens %d and %d", other.Fence(), l.Fence())
					}
					time.Sleep(time.Millisecond)
					inside.CompareAndSwap(l, nil)
					err = l.Unlock()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range rivals {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// T19: the node's answers are lost, its votes are not; the next try must not
// meet them as a rival's.
func TestOwnLeftoversDoNotBlockTheNextTry(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newField(t, 3, brief)
	c := f.client(t, pawl.WithTTL(ttl))
	unlock(t, lock(t, c, "warm"))
	for _, p := range f.proxies[:2] {
		p.SwallowReplies(1, faultproxy.ThenCut(), faultproxy.Matching(func(request []byte) bool { return strings.Contains(string(request), "name") }))
	}
	began := time.Now()
	l := lock(t, c, "name")
	if took := time.Since(began); took > ttl/2+time.Second {
		t.Errorf("locked after %v: a vote of one's own was in the way", took)
	}
	unlock(t, l)
	for i := range f.servers {
		until(t, ttl-time.Second, "given back everywhere, before it expires", func() bool {
			n, err := f.at(t, i, "EXISTS", f.key("name")).ToInt64()
			return err == nil && n == 0
		})
	}
}

// T19: the majority did not wait for it, but what it grants late is given back too.
func TestAStragglerIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	c := f.client(t, pawl.WithTTL(6*time.Second))
	unlock(t, lock(t, c, "warm"))
	f.proxies[2].Delay(faultproxy.ToServer, 300*time.Millisecond)
	l := lock(t, c, "name")
	unlock(t, l)
	f.proxies[2].Heal()
	time.Sleep(400 * time.Millisecond) // what was delayed has arrived by then
	until(t, 5*time.Second, "given back, before it expires", func() bool {
		n, err := f.at(t, 2, "EXISTS", f.key("name")).ToInt64()
		return err == nil && n == 0
	})
}

// T20
func TestANodeThatLostItsDataVotesOnlyAfterEveryOldLease(t *testing.T) {
	t.Parallel()
	for about, lose := range map[string]func(t *testing.T, f *field, i int){
		"restarted": func(_ *testing.T, f *field, i int) { f.servers[i].Kill(); f.servers[i].Restart() },
		"emptied": func(t *testing.T, f *field, i int) {
			if err := f.at(t, i, "FLUSHALL").Error(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			const ttl, maxTTL = 3 * time.Second, 4 * time.Second
			f := newOwnField(t, 3, "max-ttl=4s")
			c, rival := f.client(t, pawl.WithTTL(ttl), pawl.WithoutRenewal()), f.client(t, pawl.WithTTL(ttl))
			unlock(t, lock(t, c, "warm"))
			f.proxies[2].BlackHole(faultproxy.Both) // the holder has nodes 0 and 1
			l := lock(t, c, "name")
			f.proxies[2].Heal()
			before := l.Fence()
			lost := time.Now()
			lose(t, f, 1) // one of the two forgets it; 1 and 2 would be a majority
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			next, err := rival.Mutex("name").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if l.Err() == nil {
				t.Error("two hold the name")
			}
			if next.Fence() <= before {
				t.Errorf("token %d after %d", next.Fence(), before)
			}
			unlock(t, next)
			until(t, 30*time.Second, "voting again", func() bool { return f.votes(t, 1) })
			if silent := time.Since(lost); silent < maxTTL {
				t.Errorf("it votes again after %v", silent)
			}
			unlock(t, lock(t, rival, "name"))
		})
	}
}

// A holder that keeps its majority does not notice that a node comes and goes.
func TestAHoldOutlivesNodesThatAreLostOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	f := newOwnField(t, 3, "max-ttl=4s")
	c := f.client(t, pawl.WithTTL(ttl))
	l := lock(t, c, "name")
	for i := range f.servers {
		if err := f.at(t, i, "FLUSHALL").Error(); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "voting again", func() bool { return f.votes(t, i) || l.Err() != nil })
		until(t, 20*time.Second, "holding there again", func() bool {
			n, err := f.at(t, i, "EXISTS", f.key("name")).ToInt64()
			return err == nil && n == 1 || l.Err() != nil
		})
	}
	if err := l.Err(); err != nil {
		t.Errorf("lost: %v", err)
	}
	unlock(t, l)
}

// T21
func TestAStaleKeyOnAMinorityBlocksNobody(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	if err := f.at(t, 0, "SET", f.key("name"), "somebody else, for ever").Error(); err != nil {
		t.Fatal(err)
	}
	c := f.client(t, pawl.WithTTL(5*time.Second))
	for range 5 {
		stalltest.Within(t, time.Second, "locked and given back beside a stale key", func() time.Duration {
			began := time.Now()
			unlock(t, lock(t, c, "name"))
			return time.Since(began)
		})
	}
	if value, err := f.at(t, 0, "GET", f.key("name")).ToString(); err != nil || value != "somebody else, for ever" {
		t.Errorf("the other's key is now %q, %v", value, err)
	}
}

func TestClientsThatNameOtherNodesAreRefused(t *testing.T) {
	t.Parallel()
	f := newField(t, 4, brief)
	three := &field{servers: f.servers[:3], proxies: f.proxies[:3], query: f.query}
	unlock(t, lock(t, three.client(t, pawl.WithTTL(5*time.Second)), "name"))
	for about, url := range map[string]string{
		"a node more":     f.url(f.hosts()...),
		"another max-ttl": strings.Replace(f.url(three.hosts()...), brief, "max-ttl=2m", 1),
	} {
		c, err := pawl.Open(t.Context(), url, pawl.WithTTL(5*time.Second))
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = c.Mutex("name").TryLock(ctx)
			cancel()
			c.Close()
		}
		if !errors.Is(err, driver.ErrDenied) {
			t.Errorf("%s: %v, not ErrDenied", about, err)
		}
	}
	reversed := &field{query: f.query, servers: f.servers[:3], proxies: []*faultproxy.Proxy{f.proxies[2], f.proxies[0], f.proxies[1]}}
	unlock(t, lock(t, reversed.client(t, pawl.WithTTL(5*time.Second)), "name"))
}

func TestALostMajorityIsSaidAndSurvived(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	f := newField(t, 3, brief)
	c := f.client(t, pawl.WithTTL(ttl))
	l := lock(t, c, "name")
	began, stalls := time.Now(), stalltest.Start()
	for _, p := range f.proxies[:2] {
		p.Refuse()
		p.Reset()
	}
	select {
	case <-l.Context().Done():
	case <-time.After(30 * time.Second):
	}
	if took, lost := time.Since(began), stalls.End(); took > 2*ttl+lost {
		t.Errorf("the holder was told after %v, of which the machine stood still for %v", took, lost)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	_, err := c.Mutex("other").TryLock(ctx)
	cancel()
	if !errors.Is(err, pawl.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a majority: %v", err)
	}
	for _, p := range f.proxies {
		p.Heal()
	}
	unlock(t, lock(t, c, "name"))
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redlock://":                          "no hosts",
		"redlock://a":                         "three",
		"redlock://a,b":                       "three",
		"redlock://a,b,a":                     "twice",
		"redlock://a,,b":                      "not at all",
		"redlock://a,b,c?colour=red":          "known: max-ttl",
		"redlock://a,b,c?max-ttl=never":       "max-ttl",
		"redlock://u:secret@a,b,c?wait=1":     "unknown parameter",
		"redlock://u:secret@a:99999,b:x,c:-1": "",
	} {
		_, err := pawl.Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q and no password", url, err, want)
		}
	}
	c, err := pawl.Open(t.Context(), "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, pawl.ErrUnreachable) {
		t.Errorf("nobody there: %v, not ErrUnreachable", err)
	}
}

func TestSemaphoresAreRefused(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	_, err := f.client(t, pawl.WithTTL(5*time.Second)).Semaphore("name", 3).TryAcquire(t.Context(), 1)
	if !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("%v, not ErrUnsupported", err)
	}
}
