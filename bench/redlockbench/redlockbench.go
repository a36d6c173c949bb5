// Package redlockbench measures Redlock on five Redis servers: compared with one
// server, with one of the five down, and compared with redsync on the same five.
package redlockbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/redislock/rueidis" // redis:
	_ "github.com/pawl-go/pawl/redlock"           // redlock:
)

// ttl is the TTL of every lease. It is short because servers vote only after they
// have run for the longest TTL.
const ttl = 2 * time.Second

const nodes = 5

// distance is a round trip between machines, where servers and client do not share
// processors.
const distance = time.Millisecond

// Part starts the servers and returns their measurements.
func Part(t testing.TB) compare.Part {
	one := testserver.Redis(t)
	pids := []int{one.PID()}
	start := func() (addrs []string) {
		for range nodes {
			s := testserver.Redis(t)
			pids, addrs = append(pids, s.PID()), append(addrs, s.Addr())
		}
		return addrs
	}
	healthy, degraded, far := start(), start(), start()
	silent := faultproxy.New(t, degraded[0])
	degraded[0] = silent.Addr()
	for i, addr := range far {
		far[i] = compare.Delayed(t, addr, distance)
	}
	for _, addrs := range [][]string{healthy, degraded, far} {
		if err := found(addrs); err != nil {
			t.Fatal(err)
		}
	}
	silent.BlackHole(faultproxy.Both)
	return compare.Part{
		Name: "redlock",
		About: append([]string{
			"Redis servers on the same machine, without persistence: five that all answer, five of which one is silent (it takes connections and answers nothing), and one alone",
			fmt.Sprintf("leases of %v", ttl),
		}, compare.Versions("github.com/redis/", "github.com/go-redsync/")...),
		PIDs: pids,
		Rows: append(rows(one.Addr(), healthy, degraded), distant(compare.Delayed(t, one.Addr(), distance), far)),
	}
}

func rows(one string, addrs, degraded []string) []compare.Row {
	var (
		single  = compare.Contender{Name: "pawl one server", Open: pawlclient.Open("redis://"+one, pawl.WithTTL(ttl))}
		healthy = compare.Contender{Name: "pawl redlock", Open: openRedlock(addrs)}
		silent  = compare.Contender{Name: "pawl redlock, one silent", Open: openRedlock(degraded)}
		peer    = compare.Contender{Name: "redsync", Open: openRedsync(addrs)}
	)
	return []compare.Row{
		{
			Work: compare.Latency(), Length: 500 * time.Millisecond, Who: []compare.Contender{single, healthy, silent, peer},
			Bounds: []compare.Bound{
				{
					Who: healthy.Name, Than: single.Name, Factor: 2.5, AtMost: true,
					Why: "a short lock and its unlock are six calls to three servers where one server has two, and here they and their clients share the processors that one server and a client that stays awake have to themselves; for servers that do not share them see latency-1ms, and beside redsync, which makes ten calls, the table",
				},
				{Who: silent.Name, Than: healthy.Name, Factor: 2, AtMost: true},
			},
		},
		{
			Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: []compare.Contender{healthy, silent, peer},
			Bounds: []compare.Bound{{Who: healthy.Name, Factor: 5000, AtMost: true}},
		},
	}
}

// distant measures latency over a network.
func distant(one string, addrs []string) compare.Row {
	single := compare.Contender{Name: "pawl one server", Open: pawlclient.Open("redis://"+one, pawl.WithTTL(ttl))}
	all := compare.Contender{Name: "pawl redlock", Open: openRedlock(addrs)}
	return compare.Row{
		Work: compare.LatencyOver(distance), Length: 500 * time.Millisecond,
		Who:    []compare.Contender{single, all, {Name: "redsync", Open: openRedsync(addrs)}},
		Bounds: []compare.Bound{{Who: all.Name, Than: single.Name, Factor: 2.5, AtMost: true}},
	}
}

// found makes the servers vote for the first time, which needs all of them.
func found(addrs []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*ttl)
	defer cancel()
	l, err := openRedlock(addrs)(ctx)
	if err != nil {
		return err
	}
	unlock, err := l.Lock(ctx, "bench/first")
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(unlock(), l.Close())
}

func openRedlock(addrs []string) func(context.Context) (compare.Locker, error) {
	return pawlclient.Open(fmt.Sprintf("redlock://%s?max-ttl=%v", strings.Join(addrs, ","), ttl), pawl.WithTTL(ttl))
}

// redsyncPeer is redsync on the same servers.
type redsyncPeer struct {
	clients []*goredis.Client
	sync    *redsync.Redsync
}

func openRedsync(addrs []string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		p := &redsyncPeer{}
		var pools []syncredis.Pool
		for _, addr := range addrs {
			c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})
			p.clients = append(p.clients, c)
			pools = append(pools, pool.NewPool(c))
		}
		p.sync = redsync.New(pools...)
		return p, nil
	}
}

func (p *redsyncPeer) Close() error {
	var errs []error
	for _, c := range p.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (p *redsyncPeer) Lock(ctx context.Context, name string) (func() error, error) {
	mutex := p.sync.NewMutex("redsync:"+name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := mutex.UnlockContext(context.Background())
		return err
	}, nil
}
