// Package redisbench measures locks on one Redis node, side by side: pawl, its peers
// and the bare commands.
package redisbench

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/bench/contest"
	"github.com/pawl-go/pawl/bench/ours"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Part starts a server and returns what is to be measured on it.
func Part(t testing.TB) contest.Part {
	server, client := serve(t)
	info, err := client.Do(t.Context(), client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return contest.Part{
		Name: "redis",
		About: append([]string{
			"Redis " + version(info) + " on the same machine, without persistence",
			"leases of 10 s everywhere; redsync waits 50 to 250 ms from try to try, redislock as its name here says, rueidislock runs with one key as in its own benchmark",
		}, contest.Versions("github.com/redis/", "github.com/go-redsync/", "github.com/bsm/")...),
		PIDs: []int{server.PID()},
		Rows: rows(server, &monitor{addr: server.Addr(), client: client}, 100),
	}
}

// serve starts a server, and a client to ask it what it does.
func serve(t testing.TB) (*testserver.Server, rueidis.Client) {
	server := testserver.Redis(t)
	client, err := newRueidis(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return server, client
}

// rows are what is done; clients is how many wait in line.
func rows(server *testserver.Server, counter contest.Counter, clients int) []contest.Row {
	addr := server.Addr()
	var (
		pawlRueidis = contest.Contender{Name: "pawl rueidis", Open: openPawlRueidis(addr)}
		pawlGoRedis = contest.Contender{Name: "pawl go-redis", Open: openPawlGoRedis(addr)}
		bareRueidis = contest.Contender{Name: "bare rueidis", Open: openBareRueidis(addr)}
		bareGoRedis = contest.Contender{Name: "bare go-redis", Open: openBareGoRedis(addr)}
		rueidislock = contest.Contender{Name: "rueidislock", Open: openRueidislock(addr)}
		redsync     = contest.Contender{Name: "redsync", Open: openRedsync(addr)}
		redislock   = contest.Contender{Name: "redislock 100ms", Open: openBsm(addr, 100*time.Millisecond)}
		hasty       = contest.Contender{Name: "redislock 5ms", Open: openBsm(addr, 5*time.Millisecond)}
		pingRueidis = contest.Contender{Name: "PING rueidis", Open: openPingRueidis(addr)}
		pingGoRedis = contest.Contender{Name: "PING go-redis", Open: openPingGoRedis(addr)}
		publisher   = contest.Contender{Name: "bare publish", Open: openPublisher(addr)}
	)
	// Two that share a client stand next to each other.
	free := []contest.Contender{bareRueidis, pawlRueidis, rueidislock, bareGoRedis, pawlGoRedis, redsync, redislock}
	wanted := []contest.Contender{pawlRueidis, pawlGoRedis, rueidislock, redsync, redislock, hasty}
	return []contest.Row{
		{Work: contest.Alone(server.PID()), Length: 400 * time.Millisecond, Who: free, Bounds: alone},
		{Work: contest.Apart(128, server.PID()), Length: 400 * time.Millisecond, Who: free, Bounds: apart},
		{
			Work: contest.Handoff(10 * time.Millisecond), Length: 600 * time.Millisecond, Bounds: handoff,
			Who: append([]contest.Contender{pingRueidis, pingGoRedis, publisher}, wanted...),
		},
		{Work: contest.Line(clients, time.Millisecond, counter), Who: wanted, Bounds: line},
		{Work: contest.Together(64), Length: 600 * time.Millisecond, Who: wanted, Bounds: together},
		ours.Scale("redis://"+addr, contest.Store{PIDs: []int{server.PID()}, Addrs: []string{addr}}, 1.25),
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
