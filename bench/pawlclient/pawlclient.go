// Package pawlclient makes pawl a contender.
package pawlclient

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
)

// locker is one pawl client, as a program has it.
type locker struct {
	client *pawl.Client
	close  func() error // closes what is below the client
}

// On returns a locker on a client. Close closes the client and then calls close.
func On(client *pawl.Client, close func() error) compare.Locker { return &locker{client, close} }

// Open returns a function that opens a client by URL.
func Open(url string, opts ...pawl.Option) func(context.Context) (compare.Locker, error) {
	return func(ctx context.Context) (compare.Locker, error) {
		c, err := pawl.Open(ctx, url, opts...)
		if err != nil {
			return nil, err
		}
		return On(c, func() error { return nil }), nil
	}
}

func (l *locker) Close() error { return errors.Join(l.client.Close(), l.close()) }

func (l *locker) Lock(ctx context.Context, name string) (func() error, error) {
	lease, err := l.client.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Unlock, nil
}

// RLock takes a shared lock.
func (l *locker) RLock(ctx context.Context, name string) (func() error, error) {
	lease, err := l.client.RWMutex(name).RLock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Unlock, nil
}

// ExclusiveOnly returns a function that opens the same client without shared locks.
func ExclusiveOnly(open func(context.Context) (compare.Locker, error)) func(context.Context) (compare.Locker, error) {
	return func(ctx context.Context) (compare.Locker, error) {
		l, err := open(ctx)
		return struct{ compare.Locker }{l}, err
	}
}
