package redisbench

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/redislock/goredis"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func openPawlRueidis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		engine := rueidis.New(client)
		return pawlclient.On(pawl.New(engine, pawl.WithTTL(ttl)), func() error {
			err := engine.Close()
			client.Close()
			return err
		}), nil
	}
}

func openPawlGoRedis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client := newGoRedis(addr)
		engine := goredis.New(client)
		return pawlclient.On(pawl.New(engine, pawl.WithTTL(ttl)), func() error {
			return errors.Join(engine.Close(), client.Close())
		}), nil
	}
}
