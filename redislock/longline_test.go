package redislock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// A script that reads a line of 100 000 claims stops the server for half a second, so no
// script reads more than 1000 and what has the same expiry. All are listed nevertheless,
// once and in order, while beats move their expiries.
func TestALongLineIsReadInParts(t *testing.T) {
	t.Parallel()
	const claims, part = 7000, 1000
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	e := rueidis.New(connectTo(t, redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}))
	t.Cleanup(func() { _ = e.Close() })
	one, err := e.Open(t.Context(), driver.SessionOptions{ID: "a session", TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]driver.Claim{
		"waiters": {Name: "waited", Need: 1, Limit: 1, Queue: true},
		"permits": {Name: "shared", Need: 1, Limit: claims, Queue: true},
	} {
		all := make([]driver.Claim, claims)
		for i := range all {
			all[i] = c
			all[i].ID, all[i].Try = fmt.Sprintf("%x", i+1), 1
		}
		enterAll(t, one, all)
		beaten := make(chan error, 1)
		go func() { beaten <- one.Beat(t.Context(), all, make([]driver.Standing, claims)) }()
		line, err := e.Line(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-beaten; err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, x := range line {
			seen[x.ID] = true
			if i > 0 && x.Held && !line[i-1].Held || i > 1 && x.Fence != 0 && x.Fence < line[i-1].Fence {
				t.Errorf("%s: claim %d is not in the line's order", about, i)
			}
		}
		if len(line) != claims || len(seen) != claims {
			t.Errorf("%s: %d entries of %d claims, %d different ones", about, len(line), claims, len(seen))
		}
		before := at.evals()
		if line, err = e.Line(t.Context(), c.Name); err != nil || len(line) != claims {
			t.Errorf("%s: %d entries, %v", about, len(line), err)
		}
		if n := at.evals() - before; n < claims/part {
			t.Errorf("%s: %d claims were read by %d scripts", about, claims, n)
		}
	}
}

// enterAll enters claims, the first of them first.
func enterAll(t *testing.T, one driver.Session, all []driver.Claim) {
	t.Helper()
	if _, err := one.Enter(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	var crowd sync.WaitGroup
	next := make(chan driver.Claim)
	for range 64 {
		crowd.Go(func() {
			for c := range next {
				if _, err := one.Enter(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, c := range all[1:] {
		next <- c
	}
	close(next)
	crowd.Wait()
}
