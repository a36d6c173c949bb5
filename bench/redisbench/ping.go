package redisbench

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/bench/compare"
)

// A ping is the minimum of a round trip after a pause.
type ping struct {
	compare.Locker // nil: it is a Timer only
	send           func(ctx context.Context) error
	close          func() error
}

func (p *ping) Close() error { return p.close() }

func (p *ping) Time(ctx context.Context, pause time.Duration) (time.Duration, error) {
	// Like a lock that is taken before the pause, it warms up what cools down
	// during the pause.
	if err := p.send(ctx); err != nil {
		return 0, err
	}
	time.Sleep(pause)
	begun := time.Now()
	err := p.send(ctx)
	return time.Since(begun), err
}

func openPingRueidis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		return &ping{
			send:  func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() },
			close: func() error { client.Close(); return nil },
		}, nil
	}
}

func openPingGoRedis(addr string) func(context.Context) (compare.Locker, error) {
	return func(context.Context) (compare.Locker, error) {
		client := newGoRedis(addr)
		return &ping{
			send:  func(ctx context.Context) error { return client.Ping(ctx).Err() },
			close: client.Close,
		}, nil
	}
}

// A publisher is the minimum of a handoff: a script that deletes a key and
// publishes, and another client that receives it. It has no lock.
type publisher struct {
	compare.Locker // nil: it is a Timer only
	from, to       rueidis.Client
	script         *rueidis.Lua
	channel        string
	heard          chan time.Time
	cancel         context.CancelFunc
	done           chan struct{} // closed when the subscription has ended
}

const deleteAndPublish = `redis.call("DEL", KEYS[1]) return redis.call("PUBLISH", ARGV[1], "yours")`

func openPublisher(addr string) func(context.Context) (compare.Locker, error) {
	return func(ctx context.Context) (compare.Locker, error) {
		from, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		to, err := newRueidis(addr)
		if err != nil {
			from.Close()
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		p := &publisher{
			from: from, to: to, script: rueidis.NewLuaScript(deleteAndPublish), channel: rand.Text(),
			heard: make(chan time.Time, 1), cancel: cancel, done: make(chan struct{}),
		}
		go func() { // Close ends it and waits for it
			defer close(p.done)
			_ = to.Receive(ctx, to.B().Subscribe().Channel(p.channel).Build(), func(rueidis.PubSubMessage) {
				select {
				case p.heard <- time.Now():
				case <-ctx.Done():
				}
			})
		}()
		return p, nil
	}
}

func (p *publisher) Close() error {
	p.cancel()
	<-p.done
	p.from.Close()
	p.to.Close()
	return nil
}

func (p *publisher) Time(ctx context.Context, pause time.Duration) (time.Duration, error) {
	for {
		time.Sleep(pause)
		begun := time.Now()
		heard, err := p.script.Exec(ctx, p.from, []string{p.channel}, []string{p.channel}).AsInt64()
		if err != nil {
			return 0, err
		}
		if heard == 0 {
			continue // the subscription is not confirmed yet
		}
		select {
		case at := <-p.heard:
			return at.Sub(begun), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
