package natsbench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/bench/compare"
)

// bareOn excludes nothing: each key is used once, so that creating it costs one round
// trip. To create a key that was deleted, the client of NATS needs three.
type bareOn struct{ connection }

func newBare(c connection) compare.Locker { return &bareOn{c} }

var used atomic.Int64

func (b *bareOn) Lock(ctx context.Context, _ string) (func() error, error) {
	key := fmt.Sprintf("%d", used.Add(1))
	return create(ctx, b.kv, key)
}

// create creates a key and returns what deletes it.
func create(ctx context.Context, kv jetstream.KeyValue, key string) (func() error, error) {
	revision, err := kv.Create(ctx, key, []byte("x"), jetstream.KeyTTL(ttl))
	if err != nil {
		return nil, err
	}
	return func() error { return kv.Delete(context.Background(), key, jetstream.LastRevision(revision)) }, nil
}

// recipeOn waits by a watch of the key. Whenever it is deleted all who wait try to
// create it.
type recipeOn struct{ connection }

func newRecipe(c connection) compare.Locker { return &recipeOn{c} }

func (r *recipeOn) Lock(ctx context.Context, name string) (func() error, error) {
	key := keyOf(name)
	unlock, err := create(ctx, r.kv, key)
	if err == nil || !errors.Is(err, jetstream.ErrKeyExists) {
		return unlock, err
	}
	watch, err := r.kv.Watch(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case change := <-watch.Updates():
			if change != nil && change.Operation() == jetstream.KeyValuePut {
				continue
			}
			unlock, err := create(ctx, r.kv, key)
			if err == nil || !errors.Is(err, jetstream.ErrKeyExists) {
				return unlock, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A publisher measures one round trip after a pause.
type publisher struct {
	compare.Locker // nil: it is a Timer only
	connection
}

func newPublisher(c connection) compare.Locker { return &publisher{connection: c} }

func (p *publisher) Close() error { return p.connection.Close() }

func (p *publisher) Time(ctx context.Context, pause time.Duration) (time.Duration, error) {
	// Like a lock that is taken before the pause, it warms up what cools down during
	// the pause.
	if err := p.publish(ctx); err != nil {
		return 0, err
	}
	time.Sleep(pause)
	begun := time.Now()
	err := p.publish(ctx)
	return time.Since(begun), err
}

func (p *publisher) publish(ctx context.Context) error {
	_, err := p.js.PublishMsg(ctx, &nats.Msg{Subject: "$KV.publish.x", Data: []byte("x")})
	return err
}
