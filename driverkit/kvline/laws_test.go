package kvline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/drivertest"
)

// An example that breaks a law would teach the wrong thing.
func TestLaws(t *testing.T) { laws(t, false) }

// A write that arrives late, on a key that had no value, is carried out.
func TestLawsOfAStoreThatForgetsDeletions(t *testing.T) { laws(t, true) }

func laws(t *testing.T, forgets bool) {
	clients := map[driver.Engine]*client{}
	open := func(m *memory) driver.Engine {
		c := &client{memory: m, forgets: forgets}
		e := kvline.New("memory", c, driver.Volatile)
		clients[e] = c
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open:  func(*testing.T) driver.Engine { return open(newMemory()) },
		Peer:  func(_ *testing.T, e driver.Engine) driver.Engine { return open(clients[e].memory) },
		Clean: func(_ *testing.T, e driver.Engine) error { return clients[e].empty() },
		DelayEnter: func(_ *testing.T, s driver.Session) (deliver func() error) {
			return kvline.StoreOf(s).(*client).delay()
		},
		Around: synctest.Test,
		MinTTL: time.Second,
	})
}

// A client is an engine's connection to a store, whose next write can be disturbed.
type client struct {
	*memory
	forgets bool       // the revisions of deletions that it need not know
	mu      sync.Mutex // guards what follows
	disturb func(write func() (uint64, error)) (uint64, error)
}

func (c *client) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	c.mu.Lock()
	disturb := c.disturb
	c.disturb = nil
	c.mu.Unlock()
	if disturb == nil {
		return c.put(ctx, key, v, keep)
	}
	return disturb(func() (uint64, error) { return c.put(context.WithoutCancel(ctx), key, v, keep) })
}

func (c *client) put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	revision, err := c.memory.Put(ctx, key, v, keep)
	if c.forgets && err == nil && v.Data == nil && keep == 0 {
		c.memory.mu.Lock()
		defer c.memory.mu.Unlock()
		delete(c.values, key)
	}
	return revision, err
}

func (c *client) disturbNext(how func(write func() (uint64, error)) (uint64, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturb = how
}

// delay holds the next write back until deliver is called; its caller gives up before.
func (c *client) delay() (deliver func() error) {
	var held func() (uint64, error)
	c.disturbNext(func(write func() (uint64, error)) (uint64, error) {
		held = write
		return 0, driver.ErrUnreachable
	})
	return func() error {
		_, _ = held() // it may be refused
		return nil
	}
}

// loseAnswer makes the next write fail after it was carried out.
func (c *client) loseAnswer() {
	c.disturbNext(func(write func() (uint64, error)) (uint64, error) {
		_, _ = write()
		return 0, driver.ErrUnreachable
	})
}

// empty returns an error if something is left but for a while: it waits for what clients left
// that ended without a word.
func (c *client) empty() error {
	time.Sleep(time.Hour)
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for key, v := range c.values {
		if c.expire(key); c.values[key].Data != nil {
			return fmt.Errorf("%s is left: %s", key, v.Data)
		}
	}
	return nil
}
