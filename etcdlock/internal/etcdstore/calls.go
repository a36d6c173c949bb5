package etcdstore

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MaxOps is how many operations a server accepts in one transaction by default.
const MaxOps = 128

// MaxCallTimeout is the longest time that a call waits for an answer. The client alone
// would repeat a call without end where nothing listens.
const MaxCallTimeout = 5 * time.Second

// callTimeout is how long one call under a lease waits for an answer. A member that is
// silent, and whose connection still stands, must not keep the caller from the other
// members: the caller repeats, and the client takes its members in turn.
func callTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 2*time.Second), MaxCallTimeout)
}

// Calls are the calls of a client, each bounded by one timeout.
type Calls struct {
	client  *clientv3.Client
	timeout time.Duration // 0: only the caller's ctx ends a call
	missed  *atomic.Int32 // calls of the store in a row that had no answer in time
}

// Timeout is how long a call waits for an answer of a store that answers.
func (c Calls) Timeout() time.Duration { return c.timeout }

// limit is how long the next call waits for an answer: longer after each one that had none
// in time, because a cluster that is slow carries out also what nobody waits for any more,
// and what is repeated keeps it slow.
func (c Calls) limit() time.Duration {
	return min(c.timeout<<min(c.missed.Load(), 4), MaxCallTimeout)
}

// note takes in how a call ended that was sent at sent.
func (c Calls) note(sent time.Time, timedOut bool, err error) {
	switch {
	case timedOut:
		c.missed.Add(1)
	case err == nil && c.missed.Load() > 0 && time.Since(sent) < c.timeout:
		c.missed.Store(0)
	}
}

// Untimed returns the calls without a timeout of their own.
func (c Calls) Untimed() Calls { return Calls{client: c.client, missed: c.missed} }

// Do carries out op once.
func (c Calls) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return once(ctx, c, func(call context.Context) (clientv3.OpResponse, error) { return c.client.Do(call, op) })
}

// Commit sends a transaction once.
func (c Calls) Commit(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	return once(ctx, c, func(call context.Context) (*clientv3.TxnResponse, error) {
		return c.client.Txn(call).If(ifs...).Then(then...).Else(els...).Commit()
	})
}

// Check reports whether all conditions hold in the cluster. The read of key makes it a
// question to the cluster: a transaction without operations is answered by one member,
// which may be behind.
func (c Calls) Check(ctx context.Context, key string, conditions ...clientv3.Cmp) (bool, error) {
	reply, err := c.Commit(ctx, conditions, []clientv3.Op{clientv3.OpGet(key, clientv3.WithCountOnly())}, nil)
	return err == nil && reply.Succeeded, err
}

// DeleteIf deletes a key if all conditions hold, and reports whether it did.
func (c Calls) DeleteIf(ctx context.Context, key string, conditions ...clientv3.Cmp) (bool, error) {
	reply, err := c.Commit(ctx, conditions, []clientv3.Op{clientv3.OpDelete(key)}, nil)
	return err == nil && reply.Succeeded, err
}

// Get reads keys, and again where no member answered in time.
func (c Calls) Get(ctx context.Context, keys Range, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return repeat(ctx, c, func(call context.Context) (*clientv3.GetResponse, error) {
		return c.client.Get(call, keys.From, keys.options(opts)...)
	})
}

// Read carries out reads as of one revision, and again where no member answered in time.
func (c Calls) Read(ctx context.Context, reads []clientv3.Op) (*clientv3.TxnResponse, error) {
	return repeat(ctx, c, func(call context.Context) (*clientv3.TxnResponse, error) {
		return c.client.Txn(call).Then(reads...).Commit()
	})
}

// Grant asks for a lease of at least ttl, rounded up to whole seconds and to the
// server's minimum, and returns the TTL that was granted.
func (c Calls) Grant(ctx context.Context, ttl time.Duration) (id clientv3.LeaseID, granted time.Duration, err error) {
	reply, err := once(ctx, c, func(call context.Context) (*clientv3.LeaseGrantResponse, error) {
		return c.client.Grant(call, seconds(ttl))
	})
	if err != nil {
		return 0, 0, err
	}
	return reply.ID, time.Duration(reply.TTL) * time.Second, nil
}

// seconds rounds up.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// Revoke ends a lease and deletes its keys in the same step.
func (c Calls) Revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := once(ctx, c, func(call context.Context) (any, error) { return c.client.Revoke(call, id) })
	return err
}

// TimeToLive reads a lease. TTL is negative where there is no such lease.
func (c Calls) TimeToLive(ctx context.Context, id clientv3.LeaseID, opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return once(ctx, c, func(call context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return c.client.TimeToLive(call, id, opts...)
	})
}

func once[R any](ctx context.Context, c Calls, f func(context.Context) (R, error)) (R, error) {
	reply, _, err := send(ctx, c, f)
	return reply, classify(ctx, err)
}

// send makes a call, and reports whether it had no answer in the time that c gives it.
func send[R any](ctx context.Context, c Calls, f func(context.Context) (R, error)) (reply R, timedOut bool, err error) {
	call, cancel := c.bound(ctx)
	defer cancel()
	sent := time.Now()
	reply, err = f(call)
	timedOut = err != nil && call.Err() != nil && ctx.Err() == nil
	c.note(sent, timedOut, err)
	return reply, timedOut, err
}

// readTries is how often a read is sent. A caller that needs three answers, from three
// members in turn of which one is silent, would otherwise never have all of them.
const readTries = 3

// repeat makes a call that only reads, and again after a timeout of its own: a read has
// no outcome that could be unknown.
func repeat[R any](ctx context.Context, c Calls, f func(context.Context) (R, error)) (R, error) {
	for try := 1; ; try++ {
		reply, timedOut, err := send(ctx, c, f)
		if err == nil || !timedOut || try == readTries {
			return reply, classify(ctx, err)
		}
	}
}

// bound adds the timeout to ctx.
func (c Calls) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	return hiddenDeadline{ctx}, cancel
}

// hiddenDeadline is a context that ends at its deadline but does not announce it. An
// announced deadline is sent to the server with every call, and costs some percent of
// a small transaction; the server learns of the end when it comes.
type hiddenDeadline struct{ context.Context }

// Deadline reports that there is none.
func (hiddenDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
