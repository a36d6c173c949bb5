// Package ours is pawl as a contender.
package ours

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/contest"
)

// locker is pawl as a program has it: one client.
type locker struct {
	client *pawl.Client
	close  func() error // of what is below the client
}

// On makes a locker of a client, which it closes, and then calls close.
func On(client *pawl.Client, close func() error) contest.Locker { return &locker{client, close} }

// Open returns what opens a client by URL.
func Open(url string, opts ...pawl.Option) func(context.Context) (contest.Locker, error) {
	return func(ctx context.Context) (contest.Locker, error) {
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

// RLock takes a name together with others who read.
func (l *locker) RLock(ctx context.Context, name string) (func() error, error) {
	lease, err := l.client.RWMutex(name).RLock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Unlock, nil
}

// Alone returns what opens the same client, whose names only one can hold.
func Alone(open func(context.Context) (contest.Locker, error)) func(context.Context) (contest.Locker, error) {
	return func(ctx context.Context) (contest.Locker, error) {
		l, err := open(ctx)
		return struct{ contest.Locker }{l}, err
	}
}
