package mysql

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// levels are those that sessions can have, as variables of theirs.
var levels = map[string][]map[string]string{
	"mariadb": {
		{"tx_isolation": "'READ-COMMITTED'"},
		{"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "OFF"},
		{"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "ON"},
		{"tx_isolation": "'SERIALIZABLE'"},
	},
	"mysql": {
		{"transaction_isolation": "'READ-COMMITTED'"},
		{"transaction_isolation": "'REPEATABLE-READ'"},
		{"transaction_isolation": "'SERIALIZABLE'"},
	},
}

// Sessions of every level, on connections of ours and on the user's, take the same
// names at once, old ones and new ones: they keep each other out, and the server
// undoes nobody's work.
func levelsMeet(t *testing.T, kind string, s *testserver.Server) {
	var engines []*Engine
	for _, vars := range levels[kind] {
		e, err := New(openDB(t, s.Addr(), "pawl", params(vars)))
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, openStore(t, s.Addr()+"/pawl", vars), e)
	}
	const rounds, names = 40, 2
	inside := make([]atomic.Int32, rounds+names)
	var wg sync.WaitGroup
	for _, e := range engines {
		c := openClient(t, e)
		wg.Go(func() {
			for round := range rounds {
				for _, n := range []int{round % names, names + round} { // the second is new to all
					l, err := c.Mutex(fmt.Sprint("level/", n)).Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if inside[n].Add(1) != 1 {
						t.Error("two hold it")
					}
					inside[n].Add(-1)
					if err := l.Unlock(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i, e := range engines {
		if n := e.Retried(); n != 0 {
			t.Errorf("%v: %d batches were rolled back by the server and sent again", levels[kind][i/2], n)
		}
	}
}

// TestSoakLawsAtEveryLevel runs the laws with each kind of connection at each level,
// again and again for as long as PAWL_SOAK says.
func TestSoakLawsAtEveryLevel(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	addr, base := database(t)
	for begun, round := time.Now(), 0; !t.Failed() && (round < len(levels["mariadb"]) || time.Since(begun) < d); round++ {
		vars := levels["mariadb"][round%len(levels["mariadb"])]
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			laws(t, func(t *testing.T) driver.Engine { return openStore(t, addr+"/"+base, vars) }, pooled(openDB(t, addr, base, params(vars))))
		})
	}
}

// params are variables as the address of a pool has them.
func params(vars map[string]string) string {
	var all []string
	for k, v := range vars {
		all = append(all, k+"="+v)
	}
	return strings.Join(all, "&")
}
