// Package redisbench compares locks on one Redis node: pawl, its peers and the bare
// commands.
package redisbench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Part starts a server and returns its measurements.
func Part(t testing.TB) compare.Part {
	server, client := serve(t)
	info, err := client.Do(t.Context(), client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return compare.Part{
		Name: "redis",
		About: append([]string{
			"Redis " + version(info) + " on the same machine, without persistence",
			"leases of 10 s everywhere; redsync waits 50 to 250 ms from try to try, redislock as its name here says, rueidislock runs with one key as in its own benchmark",
		}, compare.Versions("github.com/redis/", "github.com/go-redsync/", "github.com/bsm/")...),
		PIDs: []int{server.PID()},
		Rows: rows(t, server, &monitor{addr: server.Addr(), client: client}, sizes{line: 100, longLine: 1000, processes: 16, held: 10_000}),
	}
}

// serve starts a server and a client to query it.
func serve(t testing.TB) (*testserver.Server, rueidis.Client) {
	server := testserver.Redis(t)
	client, err := newRueidis(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return server, client
}

// Openers are the contenders, by name.
var Openers = map[string]compare.Opener{
	"pawl redis://":   func(addr string) opening { return pawlclient.Open("redis://"+addr, pawl.WithTTL(ttl)) },
	"pawl rueidis":    openPawlRueidis,
	"pawl go-redis":   openPawlGoRedis,
	"pawl mutex":      func(addr string) opening { return pawlclient.ExclusiveOnly(openPawlRueidis(addr)) },
	"bare rueidis":    openBareRueidis,
	"bare go-redis":   openBareGoRedis,
	"rueidislock":     openRueidislock,
	"redsync":         openRedsync,
	"redislock 100ms": func(addr string) opening { return openBsm(addr, 100*time.Millisecond) },
	"redislock 5ms":   func(addr string) opening { return openBsm(addr, 5*time.Millisecond) },
	"PING rueidis":    openPingRueidis,
	"PING go-redis":   openPingGoRedis,
	"bare publish":    openPublisher,
}

type opening = func(context.Context) (compare.Locker, error)

// contenders returns the contenders with these names, as clients of the server at
// addr.
func contenders(addr string, names ...string) (all []compare.Contender) {
	for _, name := range names {
		all = append(all, compare.Contender{Name: name, Open: Openers[name](addr)})
	}
	return all
}

// sizes are the numbers of waiting clients, processes and held locks.
type sizes struct{ line, longLine, processes, held int }

// rows returns the measurements.
func rows(t testing.TB, server *testserver.Server, counter compare.Counter, n sizes) []compare.Row {
	addr, pid := server.Addr(), server.PID()
	// Contenders with the same client are next to each other.
	free := contenders(addr, "pawl redis://", "bare rueidis", "pawl rueidis", "rueidislock", "bare go-redis", "pawl go-redis", "redsync", "redislock 100ms")
	wanted := contenders(addr, "pawl rueidis", "pawl go-redis", "rueidislock", "redsync", "redislock 100ms", "redislock 5ms")
	far := func(d time.Duration) compare.Row {
		return compare.Row{
			Work: compare.LatencyOver(d), Length: 400 * time.Millisecond, Bounds: latencyFar,
			Who: contenders(compare.Delayed(t, addr, d), "bare rueidis", "pawl rueidis", "rueidislock", "redsync", "redislock 100ms"),
		}
	}
	return []compare.Row{
		{Work: compare.Alone(pid), Length: 400 * time.Millisecond, Who: free, Bounds: alone},
		{Work: compare.Apart(128, pid), Length: 400 * time.Millisecond, Who: free, Bounds: apart},
		far(time.Millisecond),
		far(10 * time.Millisecond),
		{
			Work: compare.Handoff(10 * time.Millisecond), Length: 400 * time.Millisecond, Bounds: handoff,
			Who: append(contenders(addr, "PING rueidis", "PING go-redis", "bare publish"), wanted...),
		},
		{Work: compare.Line(n.line, time.Millisecond, counter, pid), Who: wanted, Bounds: line},
		{
			Work: compare.Line(n.longLine, time.Millisecond, counter, pid), ExtraTime: 30 * time.Second, Bounds: longLine,
			Who: contenders(addr, "pawl rueidis"), // contenders that poll would take minutes here
		},
		{Work: compare.Together(64), Length: 400 * time.Millisecond, Who: wanted, Bounds: together},
		{
			Work: compare.Processes(n.processes, "redis", addr), Length: 400 * time.Millisecond, Bounds: processes,
			Who: wanted[:len(wanted)-1],
		},
		{
			Work: compare.Readers(64, time.Millisecond), Length: 400 * time.Millisecond, Bounds: readers,
			Who: contenders(addr, "pawl mutex", "pawl rueidis"),
		},
		pawlclient.Scale("redis://"+addr, compare.Store{PIDs: []int{pid}, Addrs: []string{addr}}, n.held),
	}
}

func version(info string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "of unknown version"
}
