package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// Load returns a record's value and version, which is the revision that wrote it.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := e.ready(ctx); err != nil {
		return nil, 0, err
	}
	reply, err := e.store.Do(ctx, clientv3.OpGet(e.keys.record(key))) // once: callers of Load repeat by themselves
	if err != nil {
		return nil, 0, err
	}
	kvs := reply.Get().Kvs
	if len(kvs) == 0 {
		return nil, 0, nil
	}
	return append([]byte{}, kvs[0].Value...), uint64(kvs[0].ModRevision), nil
}

// Store writes a record if its version is still ifVersion. A record with an end has a
// lease of its own, so keep is rounded up as a TTL is.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := e.ready(ctx); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	path := e.keys.record(key)
	if value == nil {
		_, prev, err := e.swap(ctx, clientv3.OpDelete(path, clientv3.WithPrevKV()), path, ifVersion)
		if err != nil {
			return uint64(prev.GetModRevision()), err
		}
		e.store.RevokeLater(clientv3.LeaseID(prev.GetLease()))
		return 0, nil
	}
	var lease clientv3.LeaseID
	if keep > 0 {
		var err error
		if lease, _, err = e.store.Grant(ctx, keep); err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			e.store.RevokeLater(lease) // the write was not sent
			return 0, err
		}
	}
	put := clientv3.OpPut(path, string(value), clientv3.WithLease(lease), clientv3.WithPrevKV())
	version, prev, err := e.swap(ctx, put, path, ifVersion)
	if err != nil {
		// After an unknown outcome the record may be under the lease, and would end with it.
		if errors.Is(err, driver.ErrConflict) || etcdstore.Untouched(err) {
			e.store.RevokeLater(lease)
		}
		return uint64(prev.GetModRevision()), err
	}
	// A record that is written often and kept long would otherwise leave many leases.
	e.store.RevokeLater(clientv3.LeaseID(prev.GetLease()))
	return version, nil
}

// swap carries out op if the record's version is ifVersion. It returns the record that
// was there before, or with ErrConflict the one that is there.
func (e *Engine) swap(ctx context.Context, op clientv3.Op, path string, ifVersion uint64) (uint64, *mvccpb.KeyValue, error) {
	unchanged := clientv3.Compare(clientv3.ModRevision(path), "=", int64(ifVersion))
	reply, err := e.store.Commit(ctx, []clientv3.Cmp{unchanged}, []clientv3.Op{op}, []clientv3.Op{clientv3.OpGet(path, clientv3.WithKeysOnly())})
	if err != nil {
		return 0, nil, err
	}
	answer := reply.Responses[0]
	switch {
	case !reply.Succeeded:
		if kvs := answer.GetResponseRange().Kvs; len(kvs) > 0 {
			return 0, kvs[0], driver.ErrConflict
		}
		return 0, nil, driver.ErrConflict
	case op.IsDelete():
		if kvs := answer.GetResponseDeleteRange().PrevKvs; len(kvs) > 0 {
			return 0, kvs[0], nil
		}
		return 0, nil, nil
	}
	return uint64(reply.Header.Revision), answer.GetResponsePut().PrevKv, nil
}
