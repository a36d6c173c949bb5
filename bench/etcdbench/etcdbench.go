// Package etcdbench measures locks in etcd: pawl, the mutex of etcd's own client,
// and the two writes that every lock needs.
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
	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Part starts a server and returns its measurements.
func Part(t testing.TB) compare.Part {
	s := testserver.NewEtcd(t, "--unsafe-no-fsync=false") // with the default durability
	return compare.Part{
		Name:  "etcd",
		About: append([]string{"one member on the same machine, leases of 10 s"}, compare.Versions("go.etcd.io/etcd/client/v3")...),
		PIDs:  []int{s.PID()},
		Rows:  rows(t, s.Addr(), s.PID(), 16),
	}
}

// Openers are the contenders, by name.
var Openers = map[string]compare.Opener{
	"pawl":              func(addr string) opening { return open(addr, newPawl) },
	"concurrency.Mutex": func(addr string) opening { return open(addr, newStock) },
	"bare":              func(addr string) opening { return open(addr, newBare) },
}

type opening = func(context.Context) (compare.Locker, error)

func contenders(addr string, names ...string) (all []compare.Contender) {
	for _, name := range names {
		all = append(all, compare.Contender{Name: name, Open: Openers[name](addr)})
	}
	return all
}

func rows(t testing.TB, addr string, pid, processes int) []compare.Row {
	free := func(addr string) []compare.Contender { return contenders(addr, "concurrency.Mutex", "pawl", "bare") }
	wanted := contenders(addr, "pawl", "concurrency.Mutex")
	stock := func(factor float64) []compare.Bound {
		return []compare.Bound{{Who: "pawl", Than: "concurrency.Mutex", Factor: factor}}
	}
	even := stock(0.95)
	even[0].Why = "both wait for the same two writes, and rounds of either differ by more than that where the machine's pace changes, see least to most"
	rivals := stock(4)
	rivals[0].Why = "turns of the stock mutex wait for a timer of the server, 160 times a second on any machine, and pawl's for two writes and the processor, which is shared by the server and all clients here: the slower the machine, the less is between them"
	return []compare.Row{
		{
			Work: compare.Alone(pid), Length: 500 * time.Millisecond, Who: free(addr),
			Bounds: append(even[:1:1], compare.Bound{Who: "pawl", Than: "bare", Factor: 0.75}),
		},
		{Work: compare.Apart(128, pid), Length: 500 * time.Millisecond, Who: free(addr), Bounds: even},
		{
			Work: compare.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: free(compare.Delayed(t, addr, 10*time.Millisecond)),
			Bounds: []compare.Bound{{Who: "pawl", Than: "bare", Factor: 1.1, AtMost: true}},
		},
		{Work: compare.Rivals(16, pid), Length: 500 * time.Millisecond, Who: wanted, Bounds: rivals},
		{Work: compare.Processes(processes, "etcd", addr), Length: 500 * time.Millisecond, Who: wanted, Bounds: rivals},
		{Work: compare.Together(64), Length: 500 * time.Millisecond, Who: wanted, Bounds: stock(50)},
		{Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: wanted},
		pawlclient.Scale("etcd://"+addr, compare.Store{PIDs: []int{pid}, Addrs: []string{addr}}, 10_000),
	}
}

// open connects and returns a locker on the connection.
func open(addr string, with func(*clientv3.Client) (compare.Locker, error)) opening {
	return func(context.Context) (compare.Locker, error) {
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

func newPawl(c *clientv3.Client) (compare.Locker, error) {
	e := etcdlock.New(c)
	return pawlclient.On(pawl.New(e), func() error { return errors.Join(e.Close(), c.Close()) }), nil
}

// stockOn uses a session per goroutine, because mutexes of one session do not
// exclude each other.
type stockOn struct {
	etcd *clientv3.Client
	idle chan *concurrency.Session
}

func newStock(c *clientv3.Client) (compare.Locker, error) {
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

// bareOn does not exclude anything.
type bareOn struct{ etcd *clientv3.Client }

func newBare(c *clientv3.Client) (compare.Locker, error) { return &bareOn{c}, nil }

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
