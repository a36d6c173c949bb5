package adaptertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/redislock"
)

// Laws runs the conformance suite of engines on one client, each case under its own
// prefix, so that what a case leaves can be seen. open makes an engine of the client;
// library is the path of its package, whose goroutines stay; nodes are its servers.
func Laws(t *testing.T, library string, nodes []string, open func(opts ...redislock.Option) driver.Engine, opts ...redislock.Option) {
	var consoles []console
	for _, addr := range nodes {
		consoles = append(consoles, newConsole(t, addr))
	}
	var cases atomic.Int64
	var prefixes sync.Map // of engines
	prefixed := func(prefix string) driver.Engine {
		e := open(append(opts, redislock.WithPrefix(prefix))...)
		prefixes.Store(e, prefix)
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open: func(*testing.T) driver.Engine { return prefixed(fmt.Sprintf("case%d:", cases.Add(1))) },
		Peer: func(_ *testing.T, e driver.Engine) driver.Engine {
			prefix, _ := prefixes.Load(e)
			return prefixed(prefix.(string))
		},
		MinTTL: 600 * time.Millisecond,
		Clean: func(_ *testing.T, e driver.Engine) error {
			prefix, _ := prefixes.Load(e)
			for _, at := range consoles {
				if err := leftovers(at.c, prefix.(string)); err != nil {
					return err
				}
			}
			return nil
		},
		Stays: func(stack string) bool {
			return (strings.Contains(stack, library) || strings.Contains(stack, "github.com/redis/rueidis.")) && !strings.Contains(stack, "pawl/redislock")
		},
	})
}

// leftovers reports keys under prefix, except fences and quorum memberships, which stay.
func leftovers(c redis.Client, prefix string) error {
	keys, err := c.Do(context.Background(), c.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	if err != nil {
		return err
	}
	for _, key := range keys {
		rest := strings.TrimPrefix(key, prefix)
		if rest != "\x01f" && rest != "\x01q" && !(strings.HasPrefix(rest, "\x01{") && strings.HasSuffix(rest, "}f")) {
			value, _ := c.Do(context.Background(), c.B().Get().Key(key).Build()).ToString() // for the message; it may not be a string
			return fmt.Errorf("key %q, %q", key, value)
		}
	}
	return nil
}
