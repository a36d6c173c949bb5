package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// A library makes an engine on a server.
type library func(t *testing.T, addr string, opts ...redislock.Option) driver.Engine

var libraries = map[string]library{"rueidis": onRueidis, "go-redis": onGoRedis}

func onRueidis(t *testing.T, addr string, opts ...redislock.Option) driver.Engine {
	return newRueidis(t, rueidisclient.ClientOption{InitAddress: []string{addr}}, opts...)
}

// onWideRueidis has 256 connections, of which each pipeline is sent on one by chance.
func onWideRueidis(t *testing.T, addr string, opts ...redislock.Option) driver.Engine {
	return newRueidis(t, rueidisclient.ClientOption{InitAddress: []string{addr}, PipelineMultiplex: rueidisclient.MaxPipelineMultiplex}, opts...)
}

func newRueidis(t *testing.T, with rueidisclient.ClientOption, opts ...redislock.Option) driver.Engine {
	with.ForceSingleClient = true
	c, err := rueidisclient.NewClient(with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return rueidis.New(c, opts...)
}

func onGoRedis(t *testing.T, addr string, opts ...redislock.Option) driver.Engine {
	c := goredisclient.NewClient(&goredisclient.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return goredis.New(c, opts...)
}

// claims returns claims whose IDs begin with a letter, on a name each or all on one.
func claims(n int, letter, name string, apart bool) []driver.Claim {
	all := make([]driver.Claim, n)
	for i := range all {
		all[i] = exclusive(i, name)
		all[i].ID = letter + all[i].ID[1:]
		if apart {
			all[i].Name = fmt.Sprint(name, i)
		}
	}
	return all
}

// onDistant runs a test for each library, with a session whose link can be disturbed.
func onDistant(t *testing.T, ttl time.Duration, test func(t *testing.T, one driver.Session, link *faultproxy.Proxy, at *console)) {
	onDistantWith(t, libraries, ttl, test)
}

func onDistantWith(t *testing.T, libraries map[string]library, ttl time.Duration, test func(t *testing.T, one driver.Session, link *faultproxy.Proxy, at *console)) {
	for name, engine := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, link := proxied(t)
			e := engine(t, link.Addr())
			t.Cleanup(func() { _ = e.Close() })
			t.Cleanup(func() { mend(link) })
			one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			test(t, one, link, newConsole(t, s.Addr()))
		})
	}
}

// The claims of one name that wait, or that share it, are renewed together, and each has
// the answer that it would have alone.
func TestTheWaitersOfANameAreRenewedByFewScripts(t *testing.T) {
	t.Parallel()
	const n = 2000
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, _ *faultproxy.Proxy, at *console) {
		waiters, readers := claims(n, "b", "waited", false), claims(n, "c", "shared", false)
		for i := range readers {
			readers[i].Limit = n
		}
		enterAll(t, one, waiters)
		enterAll(t, one, readers)
		gone := exclusive(0, "waited")
		live := append(append(append(waiters[:1:1], readers...), gone), waiters[1:]...)
		out := make([]driver.Standing, len(live))
		at.do("ZREM", "pawl:\x01hwaited\x01l", waiters[n/2].ID) // as if it had expired
		at.do("HDEL", "pawl:\x01hwaited", waiters[n/2].ID)
		before := at.evals()
		if err := one.Beat(t.Context(), live, out); err != nil {
			t.Fatal(err)
		}
		if scripts := at.evals() - before; scripts > 2*n/100 {
			t.Errorf("%d scripts renewed %d claims", scripts, len(live))
		}
		for i, c := range live {
			held, lost := i <= n, c.ID == gone.ID || c.ID == waiters[n/2].ID
			if out[i].Gone != lost || out[i].Held != (held && !lost) || (out[i].Valid > 0) == lost || held && out[i].Token == 0 {
				t.Fatalf("claim %d of %q: %+v", i, c.Name, out[i])
			}
		}
	})
}

// One of four chunks has no answer. The others have theirs, and the next beat, which asks
// for the rest, has all.
func TestAChunkWithoutAnswerKeepsNoOtherFromIts(t *testing.T) {
	t.Parallel()
	const n, ttl = 2000, time.Minute
	apart := map[string]library{"rueidis": onWideRueidis, "go-redis": onGoRedis} // each chunk on a connection of its own
	onDistantWith(t, apart, ttl, func(t *testing.T, one driver.Session, link *faultproxy.Proxy, _ *console) {
		live := claims(n, "a", "name", true)
		enterAll(t, one, live)
		link.SwallowReplies(1, matching(live[n/2].ID), faultproxy.ThenSilent())
		rest := unanswered(t, one, live, ttl/6)
		if len(rest) == 0 || len(rest) == n {
			t.Fatalf("%d of %d claims had no answer", len(rest), n)
		}
		t.Logf("%d of %d claims had no answer", len(rest), n)
		if rest = unanswered(t, one, rest, ttl/6); len(rest) > 0 {
			t.Errorf("%d claims had no answer the second time", len(rest))
		}
	})
}

// unanswered beats claims, and returns those that had no answer.
func unanswered(t *testing.T, one driver.Session, live []driver.Claim, limit time.Duration) (rest []driver.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out := make([]driver.Standing, len(live))
	err := one.Beat(ctx, live, out)
	for i, st := range out {
		if st.Gone || st != (driver.Standing{}) && !st.Held {
			t.Fatalf("claim %d: %+v", i, st)
		}
		if !st.Held {
			rest = append(rest, live[i])
		}
	}
	if (err != nil) != (len(rest) > 0) {
		t.Errorf("%v, and %d claims without an answer", err, len(rest))
	}
	return rest
}

// A process holds many names and waits for another: what renews its place in line is sent
// behind what renews its holds.
func TestHoldsAreRenewedBeforePlacesInLine(t *testing.T) {
	t.Parallel()
	const n = 3000
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, link *faultproxy.Proxy, _ *console) {
		holds, waiters := claims(n, "a", "held", true), claims(n, "b", "waited", false)
		enterAll(t, one, holds)
		enterAll(t, one, waiters)
		var mu sync.Mutex // guards what follows
		held, before, waiting := 0, 0, 0
		link.OnChunk(func(c faultproxy.Chunk) {
			if c.Dir != faultproxy.ToServer || c.Stage != faultproxy.Arrived {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			held += strings.Count(string(c.Data), "p1 a")
			if waiting += strings.Count(string(c.Data), "p1 b"); waiting == 0 {
				before = held
			}
		})
		if err := one.Beat(t.Context(), append(holds[:n:n], waiters...), make([]driver.Standing, 2*n)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if held < n*9/10 || waiting < n*9/10 { // an ID may be in two chunks
			t.Errorf("%d holds and %d places were seen", held, waiting)
		}
		if before < n/3 {
			t.Errorf("%d of %d holds were renewed before the first place in line", before, n)
		}
	})
}

// A client with thousands of places in a line has died. No script drops more than 500 of
// them, so that the server serves others in between; who is alive has its turn in its order.
func TestExpiredWaitersAreDroppedAFewAtATime(t *testing.T) {
	t.Parallel()
	const dead, most = 3000, 500
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, _ *faultproxy.Proxy, at *console) {
		die := func(name string) {
			at.do("EVAL", `for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
				if string.sub(id, 1, 1) == 'b' then redis.call('ZADD', KEYS[1], 1, id) end
			end`, "1", "pawl:\x01h"+name+"\x01l")
		}
		line := func(name string) int {
			n, _ := strconv.Atoi(at.do("ZCARD", "pawl:\x01h"+name+"\x01l"))
			return n
		}
		// bounded makes a call, whose scripts must not drop too many.
		bounded := func(name string, call func()) {
			t.Helper()
			before, scripts := line(name), at.evals()
			call()
			if dropped, n := before-line(name), at.evals()-scripts; dropped > n*most+1 {
				t.Errorf("%d scripts dropped %d claims", n, dropped)
			}
		}
		beat := func(c driver.Claim) driver.Standing {
			out := make([]driver.Standing, 1)
			if err := one.Beat(t.Context(), []driver.Claim{c}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		holder, first, second := claims(1, "a", "name", false)[0], claims(1, "c", "name", false)[0], claims(1, "d", "name", false)[0]
		crowd := claims(dead, "b", "name", false)
		enterAll(t, one, append([]driver.Claim{holder}, crowd[:dead/2]...))
		enterAll(t, one, []driver.Claim{first})
		enterAll(t, one, crowd[dead/2:])
		enterAll(t, one, []driver.Claim{second})
		die("name")
		bounded("name", func() {
			if st := beat(crowd[dead-1]); !st.Gone {
				t.Errorf("a claim that has expired: %+v", st)
			}
		})
		bounded("name", func() {
			if err := one.Leave(t.Context(), holder); err != nil {
				t.Fatal(err)
			}
		})
		for st, tries := (driver.Standing{}), 0; !st.Held; tries++ {
			bounded("name", func() { st = beat(first) })
			if later := beat(second); later.Held || later.Gone || st.Gone || tries > dead/most+2 {
				t.Fatalf("after %d beats %+v, and the one behind it %+v", tries, st, later)
			}
		}
		bounded("name", func() {
			if err := one.Leave(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		})
		if st := beat(second); !st.Held {
			t.Errorf("the one behind it: %+v", st)
		}

		permit, try := claims(1, "a", "shared", false)[0], claims(1, "e", "shared", false)[0]
		crowd = claims(dead, "b", "shared", false)
		permit.Limit, try.Limit, try.Queue = 2, 2, false
		enterAll(t, one, append([]driver.Claim{permit}, crowd...)) // who wants all waits
		die("shared")
		bounded("shared", func() {
			if st, err := one.Enter(t.Context(), try); err != nil || !st.Held {
				t.Errorf("a permit for which only the dead wait: %+v, %v", st, err)
			}
		})
	})
}

// Claims of one name that are given up leave by few scripts, and each has its answer.
func TestClaimsOfANameLeaveByFewScripts(t *testing.T) {
	t.Parallel()
	const n = 2000
	onDistant(t, time.Hour, func(t *testing.T, one driver.Session, _ *faultproxy.Proxy, at *console) {
		all := claims(n, "b", "name", false)
		next := claims(1, "c", "name", false)[0]
		enterAll(t, one, append(all[:n:n], next))
		out, before := make([]error, n), at.evals()
		one.(driver.Leaver).LeaveAll(t.Context(), all, out)
		if scripts := at.evals() - before; scripts > n/100 {
			t.Errorf("%d scripts ended %d claims", scripts, n)
		}
		for i, err := range out {
			if err != nil {
				t.Fatalf("claim %d: %v", i, err)
			}
		}
		st := make([]driver.Standing, 1)
		if err := one.Beat(t.Context(), []driver.Claim{next}, st); err != nil || !st[0].Held {
			t.Errorf("the next one: %+v, %v", st[0], err)
		}
		one.(driver.Leaver).LeaveAll(t.Context(), all, out)
		for i, err := range out {
			if !errors.Is(err, driver.ErrGone) {
				t.Fatalf("claim %d, once more: %v", i, err)
			}
		}
	})
}
