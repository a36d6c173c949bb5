package redlock_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/redlock"
)

// servers starts n independent Redis servers.
func servers(t *testing.T, n int) (all []*testserver.Server) {
	t.Helper()
	for range n {
		all = append(all, testserver.Redis(t))
	}
	return all
}

func addrs(all []*testserver.Server) (hosts []string) {
	for _, s := range all {
		hosts = append(hosts, s.Addr())
	}
	return hosts
}

// open opens an engine by URL.
func open(t *testing.T, hosts []string, query string) driver.Engine {
	t.Helper()
	opener, ok := driver.Lookup("redlock")
	if !ok {
		t.Fatal("redlock: is not registered")
	}
	u, err := url.Parse("redlock://" + strings.Join(hosts, ",") + "?" + query)
	if err != nil {
		t.Fatal(err)
	}
	e, err := opener(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLaws(t *testing.T) {
	for _, n := range []int{3, 4, 5} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			f := &field{servers: servers(t, n), query: "max-ttl=20s"}
			f.ripen(t)
			hosts := addrs(f.servers)
			var cases atomic.Int64
			var queries sync.Map
			drivertest.Run(t, drivertest.Harness{
				Open: func(t *testing.T) driver.Engine {
					query := fmt.Sprintf("max-ttl=20s&prefix=case%d:", cases.Add(1))
					e := open(t, hosts, query)
					queries.Store(e, query)
					return e
				},
				Peer: func(t *testing.T, e driver.Engine) driver.Engine {
					query, _ := queries.Load(e)
					return open(t, hosts, query.(string))
				},
				MinTTL: 400 * time.Millisecond,
				MaxTTL: 20 * time.Second,
			})
		})
	}
}
