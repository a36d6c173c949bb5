package engines_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Of the addresses of a store the one that a client uses goes silent: the connection stays,
// and nothing answers on it. The client goes to the other, in time for its hold.
func TestAnAddressThatHangsStrandsNobody(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) (addr, before, after string){
		"etcd":      func(t *testing.T) (string, string, string) { return testserver.Etcd(t).Addr(), "etcd://", "" },
		"ZooKeeper": func(t *testing.T) (string, string, string) { return testserver.ZooKeeper(t).Addr(), "zk://", "" },
		"NATS":      func(t *testing.T) (string, string, string) { return testserver.NATS(t).Addr(), "nats://", "" },
		"PostgreSQL": func(t *testing.T) (string, string, string) {
			return testserver.PostgreSQL(t).Addr(), "postgres://postgres@", "/postgres?sslmode=disable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, before, after := store(t)
			ways := []*faultproxy.Proxy{faultproxy.New(t, addr), faultproxy.New(t, addr)}
			if m, ok := recipetest.On(before + addr + after)(t).Engine().(interface {
				Migrate(ctx context.Context) error
			}); ok {
				if err := m.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			const ttl = 20 * time.Second
			c := recipetest.On(before+ways[0].Addr()+","+ways[1].Addr()+after)(t, pawl.WithTTL(ttl))
			l, err := c.Mutex("held").Lock(t.Context())
			l = taken(t, l, err)
			if ways[0].Open() == 0 {
				ways[0], ways[1] = ways[1], ways[0]
			}
			ways[0].BlackHole(faultproxy.Both)
			other, err := c.Mutex("free").Lock(t.Context())
			other = taken(t, other, err)
			if err := other.Unlock(); err != nil {
				t.Error(err)
			}
			select {
			case <-l.Context().Done():
				t.Errorf("the hold: %v", l.Err())
			case <-time.After(ttl + ttl/4): // it ends unless it is renewed by the other address
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
			if ways[1].Open() == 0 {
				t.Error("the other address is not used")
			}
		})
	}
}
