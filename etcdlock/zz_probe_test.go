//go:build !race

package etcdlock

import (
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestProbe(t *testing.T) {
	client := dial(t, []string{testserver.NewEtcd(t).Addr()})
	e := New(client)
	defer e.Close()
	c := pawl.New(e)
	defer c.Close()
	s := open(t, e, time.Minute)
	lease := s.lease
	k := e.space.line("probe").from + "x" + "abc"
	txn := func(ctx context.Context, ifs []clientv3.Cmp, then ...clientv3.Op) error {
		_, err := client.Txn(ctx).If(ifs...).Then(then...).Commit()
		return err
	}
	label := labelOf(mutex("probe"), s.id)
	put := clientv3.OpPut(k, label, clientv3.WithLease(lease))
	line := e.space.line("probe")
	cases := []struct {
		name string
		f    func(context.Context) error
	}{
		{"pawl", locking(c.Mutex("full"))},
		{"engine", func(ctx context.Context) error {
			cl := mutex("eng")
			if _, err := s.Enter(ctx, cl); err != nil {
				return err
			}
			return s.Leave(ctx, cl)
		}},
		{"stock", stock(t, client, "x")},
		{"bare", bare(client, "x")},
		{"bare lease", func(ctx context.Context) error {
			if _, err := client.Do(ctx, put); err != nil {
				return err
			}
			_, err := client.Delete(ctx, k)
			return err
		}},
		{"bare undated", func(ctx context.Context) error {
			if _, err := client.Put(ctx, k, "x"); err != nil {
				return err
			}
			_, err := client.Delete(ctx, k)
			return err
		}},
		{"txn free,last+put", func(ctx context.Context) error {
			if err := txn(ctx, []clientv3.Cmp{created(k, 0)}, line.last(), put); err != nil {
				return err
			}
			return txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k), ">", 0)}, clientv3.OpDelete(k))
		}},
		{"txn empty,put", func(ctx context.Context) error {
			if err := txn(ctx, []clientv3.Cmp{line.empty()}, put); err != nil {
				return err
			}
			return txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k), ">", 0)}, clientv3.OpDelete(k))
		}},
		{"txn empty,put; bare delete", func(ctx context.Context) error {
			if err := txn(ctx, []clientv3.Cmp{line.empty()}, put); err != nil {
				return err
			}
			_, err := client.Delete(ctx, k)
			return err
		}},
		{"txn put; txn delete", func(ctx context.Context) error {
			if err := txn(ctx, nil, put); err != nil {
				return err
			}
			return txn(ctx, nil, clientv3.OpDelete(k))
		}},
	}
	all := make([][]time.Duration, len(cases))
	for i := range 1540 {
		for j, c := range cases {
			d := timed(t, 1, c.f)
			if i >= 40 {
				all[j] = append(all[j], d)
			}
		}
	}
	for j, c := range cases {
		slices.Sort(all[j])
		n := len(all[j])
		t.Logf("%-28s p25 %v p50 %v p75 %v", c.name, all[j][n/4], all[j][n/2], all[j][n*3/4])
	}
}
