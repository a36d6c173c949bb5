//go:build !race

package rueidis_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A program may have many clients, and a Redlock has one for each node.
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
		for n := range 3 { // enough for all connections of a client to be made
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

// heap returns what is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what has a finalizer goes by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
