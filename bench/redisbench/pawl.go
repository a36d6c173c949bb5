package redisbench

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/contest"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// pawlOn is pawl as a program has it: one client, on a Redis client of its own.
type pawlOn struct {
	client *pawl.Client
	close  func() error // of the engine and of what is below it
}

func openPawlRueidis(addr string) func(context.Context) (contest.Locker, error) {
	return func(context.Context) (contest.Locker, error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		engine := rueidis.New(client)
		return &pawlOn{pawl.New(engine, pawl.WithTTL(ttl)), func() error {
			err := engine.Close()
			client.Close()
			return err
		}}, nil
	}
}

func openPawlGoRedis(addr string) func(context.Context) (contest.Locker, error) {
	return func(context.Context) (contest.Locker, error) {
		client := newGoRedis(addr)
		engine := goredis.New(client)
		return &pawlOn{pawl.New(engine, pawl.WithTTL(ttl)), func() error {
			return errors.Join(engine.Close(), client.Close())
		}}, nil
	}
}

func (p *pawlOn) Close() error { return errors.Join(p.client.Close(), p.close()) }

func (p *pawlOn) Lock(ctx context.Context, name string) (func() error, error) {
	lease, err := p.client.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Unlock, nil
}
