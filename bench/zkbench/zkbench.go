// Package zkbench measures locks in ZooKeeper: pawl, the recipe of the Go client, and
// the two writes that a lock cannot do without.
package zkbench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/bench/contest"
	"github.com/pawl-go/pawl/bench/ours"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/zklock" // zk:
)

// Part starts a server and returns what is to be measured on it.
func Part(t testing.TB) contest.Part {
	s := testserver.ZooKeeper(t)
	return contest.Part{
		Name:  "zookeeper",
		About: append([]string{"one server on the same machine, sessions of 10 s"}, contest.Versions("github.com/go-zookeeper/")...),
		PIDs:  []int{s.PID()},
		Rows:  rows(t, s.Addr(), s.PID()),
	}
}

// contenders are the recipe of the client, pawl, and the bare writes.
func contenders(addr string) (stock, mine, bare contest.Contender) {
	return contest.Contender{Name: "zk.Lock", Open: openStock(addr)},
		contest.Contender{Name: "pawl", Open: ours.Open("zk://" + addr + "/bench")},
		contest.Contender{Name: "bare", Open: openBare(addr)}
}

func rows(t testing.TB, addr string, pid int) []contest.Row {
	stock, mine, bare := contenders(addr)
	both := []contest.Contender{mine, stock}
	far, mineFar, bareFar := contenders(contest.Far(t, addr, 10*time.Millisecond))
	return []contest.Row{
		{
			Work: contest.Alone(pid), Length: 500 * time.Millisecond, Who: []contest.Contender{stock, mine, bare},
			Bounds: []contest.Bound{{Who: mine.Name, Than: stock.Name, Factor: 1.05}},
		},
		{
			Work: contest.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: []contest.Contender{far, mineFar, bareFar},
			Bounds: []contest.Bound{{Who: mine.Name, Than: bare.Name, Factor: 1.1, AtMost: true}},
		},
		{Work: contest.Rivals(16, pid), Length: 700 * time.Millisecond, Who: both, Bounds: []contest.Bound{{
			Who: mine.Name, Than: stock.Name, Factor: 1.2,
			Why: "a turn takes three requests and zk.Lock's takes five, but two of each are writes, which cost the server about three times what a read does, see server-µs",
		}}},
		{Work: contest.Together(64), Length: 700 * time.Millisecond, Who: both, Bounds: []contest.Bound{{Who: mine.Name, Than: stock.Name, Factor: 50}}},
		{Work: contest.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: both},
		ours.Scale("zk://"+addr+"/bench", contest.Store{PIDs: []int{pid}, Addrs: []string{addr}}, 10_000),
	}
}

// silent keeps the client's own log quiet.
type silent struct{}

func (silent) Printf(string, ...any) {}

func connect(addr string) (*zk.Conn, error) {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	return conn, err
}

// stockOn knows no ctx: a wait ends when the one ahead leaves.
type stockOn struct{ conn *zk.Conn }

func openStock(addr string) func(context.Context) (contest.Locker, error) {
	return func(context.Context) (contest.Locker, error) {
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

// bareOn excludes nobody.
type bareOn struct{ conn *zk.Conn }

func openBare(addr string) func(context.Context) (contest.Locker, error) {
	return func(context.Context) (contest.Locker, error) {
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
