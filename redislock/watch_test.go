package redislock_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A watch ends while the server carries out a renewal of it. The request is withdrawn, and
// does not stay until it expires.
func TestAWatchThatEndsDuringARenewalLeavesNothing(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	at, holder := newConsole(t, s.Addr()), open(t, "redis://"+s.Addr())
	unlock(t, lock(t, holder.Mutex("name"))) // leaves the name's counter
	before := at.do("DBSIZE")

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lock(t, holder.Mutex("name", pawl.WithTTL(time.Second), pawl.WithoutRenewal())) // a renewal follows its expiry
	departed, err := open(t, "redis://"+p.Addr()).Engine().(driver.Watcher).Watch(ctx, "name")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	p.OnChunk(func(c faultproxy.Chunk) {
		if c.Dir == faultproxy.ToServer && c.Stage == faultproxy.Forwarded && bytes.Contains(c.Data, []byte("10000")) {
			once.Do(func() {
				p.Delay(faultproxy.ToClient, 20*time.Millisecond)
				cancel()
			})
		}
	})
	for range departed {
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Fatal("the watch is not renewed")
	}
	until(t, 5*time.Second, "as before", func() bool { return at.do("DBSIZE") == before })
}
