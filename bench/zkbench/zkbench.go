// Package zkbench measures locks in ZooKeeper: pawl, the recipe of the Go client,
// and the two writes that every lock needs.
package zkbench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/zklock" // zk:
)

// Part starts a server and returns its measurements.
func Part(t testing.TB) compare.Part {
	s := testserver.ZooKeeper(t)
	return compare.Part{
		Name:  "zookeeper",
		About: append([]string{"one server on the same machine, sessions of 10 s"}, compare.Versions("github.com/go-zookeeper/")...),
		PIDs:  []int{s.PID()},
		Rows:  rows(t, s.Addr(), s.PID()),
	}
}

// contenders are the client's recipe, pawl, and the bare writes.
func contenders(addr string) (stock, mine, bare compare.Contender) {
	return compare.Contender{Name: "zk.Lock", Open: openStock(addr)},
		compare.Contender{Name: "pawl", Open: pawlclient.Open("zk://" + addr + "/bench")},
		compare.Contender{Name: "bare", Open: openBare(addr)}
}

func rows(t testing.TB, addr string, pid int) []compare.Row {
	stock, mine, bare := contenders(addr)
	both := []compare.Contender{mine, stock}
	far, mineFar, bareFar := contenders(compare.Delayed(t, addr, 10*time.Millisecond))
	return []compare.Row{
		{
			Work: compare.Alone(pid), Length: 500 * time.Millisecond, Who: []compare.Contender{stock, mine, bare},
			Bounds: []compare.Bound{{Who: mine.Name, Than: stock.Name, Factor: 1.05}},
		},
		{
			Work: compare.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: []compare.Contender{far, mineFar, bareFar},
			Bounds: []compare.Bound{{Who: mine.Name, Than: bare.Name, Factor: 1.1, AtMost: true}},
		},
		{Work: compare.Rivals(16, pid), Length: 700 * time.Millisecond, Who: both, Bounds: []compare.Bound{{
			Who: mine.Name, Than: stock.Name, Factor: 1.2,
			Why: "a turn takes three requests and zk.Lock's takes five, but two of each are writes, which cost the server about three times what a read does, see server-µs",
		}}},
		{Work: compare.Together(64), Length: 700 * time.Millisecond, Who: both, Bounds: []compare.Bound{{Who: mine.Name, Than: stock.Name, Factor: 50}}},
		{Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: both},
		pawlclient.Scale("zk://"+addr+"/bench", compare.Store{PIDs: []int{pid}, Addrs: []string{addr}}, 10_000),
	}
}

// silent suppresses the client's log.
type silent struct{}

func (silent) Printf(string, ...any) {}

func connect(addr string) (*zk.Conn, error) {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	return conn, err
}

// stockOn ignores ctx: a wait ends when the claim ahead leaves.
type stockOn struct{ conn *zk.Conn }

func openStock(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		conn, err := connect(addr)
		return &stockOn{conn}, err
	}
}

func (s *stockOn) Close() error { s.conn.Close(); return nil }

func (s *stockOn) Lock(_ context.Context, name string) (func() error, error) {
	l := zk.NewLock(s.conn, "/stock/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

// bareOn does not exclude anything.
type bareOn struct{ conn *zk.Conn }

func openBare(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		conn, err := connect(addr)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Create("/bare", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			conn.Close()
			return nil, err
		}
		return &bareOn{conn}, nil
	}
}

func (b *bareOn) Close() error { b.conn.Close(); return nil }

func (b *bareOn) Lock(context.Context, string) (func() error, error) {
	path, err := b.conn.Create("/bare/x", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return nil, err
	}
	return func() error { return b.conn.Delete(path, -1) }, nil
}
