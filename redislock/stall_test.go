package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Other programs have filled the server with keys. It stalls for three seconds, in which
// four hundred acquires give up. The outage must end with the stall, and nothing may scan
// the keys.
func TestAnOutageOfAFullServerEndsWithTheStall(t *testing.T) {
	t.Parallel()
	const ttl, stall = 4 * time.Second, 3 * time.Second
	s := testserver.Redis(t, "--enable-debug-command", "yes")
	at := newConsole(t, s.Addr())
	at.do("DEBUG", "POPULATE", "100000", "neighbour") // scans are counted, so the number does not matter
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	unlock(t, lock(t, c.Mutex("before")))
	s.Pause()
	began := time.Now()
	var gaveUp sync.WaitGroup
	for i := range 400 {
		gaveUp.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), stall*4/5)
			defer cancel()
			_, err := c.Mutex(fmt.Sprint("stalled ", i)).Lock(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrUnreachable) {
				t.Errorf("lock %d of a server that stands still: %v", i, err)
			}
		})
	}
	gaveUp.Wait()
	time.Sleep(time.Until(began.Add(stall))) // the full stall
	w := startWatch()
	defer w.end()
	s.Resume()
	over := time.Now()
	unlock(t, lock(t, c.Mutex("next")))
	if took := w.spent(); took > 2*time.Second {
		t.Errorf("the next lock came %v after the stall", took)
	} else {
		t.Logf("the next lock came %v after the stall", took)
	}
	for i := 0; time.Since(over) < ttl; i++ { // unsettled claims are retried until a lease would have expired
		for _, name := range []string{"next", fmt.Sprint("stalled ", i%400)} {
			l, err := c.Mutex(name).TryLock(t.Context())
			if err != nil && !errors.Is(err, pawl.ErrHeld) {
				t.Fatalf("%v after the stall: %v", time.Since(over), err)
			}
			if err == nil {
				unlock(t, l)
			}
		}
		time.Sleep(ttl / 100)
	}
	for i := range 400 {
		until(t, 2*ttl, fmt.Sprint("settled, acquire ", i), func() bool {
			line, err := c.Line(t.Context(), fmt.Sprint("stalled ", i))
			return err == nil && len(line) == 0
		})
	}
	for _, stat := range strings.Fields(at.do("INFO", "commandstats")) {
		if strings.HasPrefix(stat, "cmdstat_scan:") || strings.HasPrefix(stat, "cmdstat_keys:") {
			t.Errorf("the keys were scanned: %s", stat)
		}
	}
}
