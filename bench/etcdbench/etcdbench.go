// Package etcdbench measures locks in etcd: pawl, the mutex of etcd's own client, and
// the two writes that a lock cannot do without.
package etcdbench

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/contest"
	"github.com/pawl-go/pawl/bench/ours"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Part starts a server and returns what is to be measured on it.
func Part(t testing.TB) contest.Part {
	s := testserver.NewEtcd(t, "--unsafe-no-fsync=false") // as it comes
	return contest.Part{
		Name:  "etcd",
		About: append([]string{"one member on the same machine, leases of 10 s"}, contest.Versions("go.etcd.io/etcd/client/v3")...),
		PIDs:  []int{s.PID()},
		Rows:  rows(t, s.Addr(), s.PID(), 16),
	}
}

// Openers are those who take part, by name.
var Openers = map[string]contest.Opener{
	"pawl":              func(addr string) opening { return open(addr, newPawl) },
	"concurrency.Mutex": func(addr string) opening { return open(addr, newStock) },
	"bare":              func(addr string) opening { return open(addr, newBare) },
}

type opening = func(context.Context) (contest.Locker, error)

func contenders(addr string, names ...string) (all []contest.Contender) {
	for _, name := range names {
		all = append(all, contest.Contender{Name: name, Open: Openers[name](addr)})
	}
	return all
}

func rows(t testing.TB, addr string, pid, processes int) []contest.Row {
	free := func(addr string) []contest.Contender { return contenders(addr, "concurrency.Mutex", "pawl", "bare") }
	wanted := contenders(addr, "pawl", "concurrency.Mutex")
	stock := func(factor float64) []contest.Bound {
		return []contest.Bound{{Who: "pawl", Than: "concurrency.Mutex", Factor: factor}}
	}
	even := stock(0.95)
	even[0].Why = "both wait for the same two writes, and rounds of either differ by more than that where the machine's pace changes, see least to most"
	rivals := stock(4)
	rivals[0].Why = "turns of the stock mutex wait for a timer of the server, 160 times a second on any machine, and pawl's for two writes and the processor, which is shared by the server and all clients here: the slower the machine, the less is between them"
	return []contest.Row{
		{
			Work: contest.Alone(pid), Length: 500 * time.Millisecond, Who: free(addr),
			Bounds: append(even[:1:1], contest.Bound{Who: "pawl", Than: "bare", Factor: 0.75}),
		},
		{Work: contest.Apart(128, pid), Length: 500 * time.Millisecond, Who: free(addr), Bounds: even},
		{
			Work: contest.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: free(contest.Far(t, addr, 10*time.Millisecond)),
			Bounds: []contest.Bound{{Who: "pawl", Than: "bare", Factor: 1.1, AtMost: true}},
		},
		{Work: contest.Rivals(16, pid), Length: 500 * time.Millisecond, Who: wanted, Bounds: rivals},
		{Work: contest.Processes(processes, "etcd", addr), Length: 500 * time.Millisecond, Who: wanted, Bounds: rivals},
		{Work: contest.Together(64), Length: 500 * time.Millisecond, Who: wanted, Bounds: stock(50)},
		{Work: contest.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: wanted},
		ours.Scale("etcd://"+addr, contest.Store{PIDs: []int{pid}, Addrs: []string{addr}}, 10_000),
	}
}

// open connects, and makes a locker of the connection.
func open(addr string, with func(*clientv3.Client) (contest.Locker, error)) opening {
	return func(context.Context) (contest.Locker, error) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		l, err := with(c)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return l, nil
	}
}

func newPawl(c *clientv3.Client) (contest.Locker, error) {
	e := etcdlock.New(c)
	return ours.On(pawl.New(e), func() error { return errors.Join(e.Close(), c.Close()) }), nil
}

// stockOn makes a session for each goroutine: its mutexes of one session do not
// exclude each other.
type stockOn struct {
	etcd *clientv3.Client
	idle chan *concurrency.Session
}

func newStock(c *clientv3.Client) (contest.Locker, error) {
	return &stockOn{c, make(chan *concurrency.Session, 128)}, nil
}

func (s *stockOn) Close() error {
	for {
		select {
		case one := <-s.idle:
			one.Close()
		default:
			return s.etcd.Close()
		}
	}
}

func (s *stockOn) session() (*concurrency.Session, error) {
	select {
	case one := <-s.idle:
		return one, nil
	default:
		return concurrency.NewSession(s.etcd, concurrency.WithTTL(10))
	}
}

func (s *stockOn) Lock(ctx context.Context, name string) (func() error, error) {
	one, err := s.session()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(one, "stock/"+name)
	if err := m.Lock(ctx); err != nil {
		return nil, errors.Join(err, one.Close())
	}
	return func() error {
		err := m.Unlock(context.Background())
		s.idle <- one
		return err
	}, nil
}

// bareOn excludes nobody.
type bareOn struct{ etcd *clientv3.Client }

func newBare(c *clientv3.Client) (contest.Locker, error) { return &bareOn{c}, nil }

func (b *bareOn) Close() error { return b.etcd.Close() }

func (b *bareOn) Lock(ctx context.Context, name string) (func() error, error) {
	if _, err := b.etcd.Put(ctx, "bare/"+name, "x"); err != nil {
		return nil, err
	}
	return func() error {
		_, err := b.etcd.Delete(context.Background(), "bare/"+name)
		return err
	}, nil
}
