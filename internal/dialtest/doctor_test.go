package dialtest_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"

	_ "github.com/pawl-go/pawl/etcdlock/etcddoctor"
	_ "github.com/pawl-go/pawl/natslock/natsdoctor"
	_ "github.com/pawl-go/pawl/redislock/redisdoctor"
	_ "github.com/pawl-go/pawl/redlock/redlockdoctor"
	_ "github.com/pawl-go/pawl/sqllock/sqldoctor"
	_ "github.com/pawl-go/pawl/zklock/zkdoctor"
)

// examine checks that an examination reaches the URL, and every server that it has a
// finding about, by the dialer. The first one of a cluster's URL tells where the others are.
func examine(t *testing.T, d *testDialer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second) // five times that of the command
	defer cancel()
	var mu sync.Mutex // guards asked
	asked := map[string]bool{}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(address, ":8222") { // where the monitoring page of NATS may be
			return nil, errBroken
		}
		mu.Lock()
		asked[address] = true
		mu.Unlock()
		return d.dial(ctx, network, address)
	}
	found, err := doctor.Examine(driver.WithDialer(ctx, dial), d.store.url)
	if err != nil {
		t.Errorf("examined: %v", err)
		return
	}
	mu.Lock()
	defer mu.Unlock()
	named := func(address string) bool { return asked[address] }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(d.store.routes)), named) {
		t.Errorf("no server of the URL was asked by the dialer, but %v", asked)
	}
	for _, f := range found {
		if f.Node != "" && !asked[f.Node] {
			t.Errorf("%s was not asked by the dialer, and has the finding %+v", f.Node, f)
		}
	}
}
