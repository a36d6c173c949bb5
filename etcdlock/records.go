package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Load returns a record's value and version, which is the revision that wrote it.
func (e *Engine) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := e.alive(ctx); err != nil {
		return nil, 0, err
	}
	call, cancel := context.WithTimeout(ctx, longest) // once: who reads records asks again
	defer cancel()
	reply, err := e.client.Get(call, e.space.record(key))
	if err != nil {
		return nil, 0, classify(ctx, err)
	}
	if len(reply.Kvs) == 0 {
		return nil, 0, nil
	}
	return append([]byte{}, reply.Kvs[0].Value...), uint64(reply.Kvs[0].ModRevision), nil
}

// Store writes a record if its version is still ifVersion. One that is not kept
// for ever has a lease of its own, so that keep is rounded up as a TTL is.
func (e *Engine) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	if err := e.alive(ctx); err != nil {
		return 0, err
	}
	if len(value) > driver.MaxRecord {
		return 0, driver.ErrTooLarge
	}
	path := e.space.record(key)
	if value == nil {
		_, prev, err := e.swap(ctx, clientv3.OpDelete(path, clientv3.WithPrevKV()), path, ifVersion)
		if err != nil {
			return uint64(prev.GetModRevision()), err
		}
		e.release(ctx, prev.GetLease())
		return 0, nil
	}
	var lease clientv3.LeaseID
	if keep > 0 {
		call, cancel := context.WithTimeout(ctx, longest)
		granted, err := e.client.Grant(call, int64((keep+time.Second-1)/time.Second))
		cancel()
		if err != nil {
			return 0, classify(ctx, err)
		}
		lease = granted.ID
	}
	put := clientv3.OpPut(path, string(value), clientv3.WithLease(lease), clientv3.WithPrevKV())
	version, prev, err := e.swap(ctx, put, path, ifVersion)
	if errors.Is(err, driver.ErrConflict) {
		e.release(ctx, int64(lease))
	}
	if err != nil {
		return uint64(prev.GetModRevision()), err // after an unknown outcome the lease may have the record: it ends by itself
	}
	e.release(ctx, prev.GetLease())
	return version, nil
}

// swap carries out op if the record's version is ifVersion. It returns what was
// there before, or with ErrConflict what is there.
func (e *Engine) swap(ctx context.Context, op clientv3.Op, path string, ifVersion uint64) (uint64, *mvccpb.KeyValue, error) {
	call, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	reply, err := e.client.Txn(call).If(clientv3.Compare(clientv3.ModRevision(path), "=", int64(ifVersion))).
		Then(op).Else(clientv3.OpGet(path, clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return 0, nil, classify(ctx, err)
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

// release ends the lease of a record that was replaced: a record written often
// and kept long would otherwise have as many of them. One that stays ends by
// itself, so a fault here is none of the caller's.
func (e *Engine) release(ctx context.Context, lease int64) {
	if lease != 0 {
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		_, _ = e.client.Revoke(ctx, clientv3.LeaseID(lease))
	}
}
