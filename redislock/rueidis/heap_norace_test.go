//go:build !race

package rueidis_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A program may have many clients: a Redlock has one for each node.
func TestNoRaceAClientTakesLittleMemory(t *testing.T) {
	s := testserver.Redis(t)
	const clients, most = 20, 800 << 10
	before := heap()
	all := make([]*pawl.Client, clients)
	for i := range all {
		c, err := pawl.Open(t.Context(), "redis://"+s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for n := range 3 { // makes all connections of a client
			if _, err := c.Mutex(fmt.Sprint(i, "-", n)).TryLock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all[i] = c
	}
	if each := (heap() - before) / clients; each > most {
		t.Errorf("a client takes %d KB, at most %d", each>>10, most>>10)
	}
	runtime.KeepAlive(all)
}

// heap returns the heap in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
