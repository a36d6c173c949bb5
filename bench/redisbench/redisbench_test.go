package redisbench

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/bench/contest"
)

// What is measured is for the command; here everybody must only get through. A peer
// may fail: on a busy machine rueidislock was seen to wait on for ever although the
// key was free.
func TestEveryContenderDoesItsWork(t *testing.T) {
	server, client := serve(t)
	for _, row := range rows(server, &monitor{addr: server.Addr(), client: client}, 5) {
		t.Run(row.Name, func(t *testing.T) {
			row.Length = 20 * time.Millisecond
			r := contest.Run(t.Context(), contest.Part{}, row, 1)
			peers := []string{"rueidislock", "redsync", "redislock 100ms", "redislock 5ms"}
			for name, err := range r.Failed {
				if slices.Contains(peers, name) {
					t.Logf("%s: %v", name, err)
					continue
				}
				t.Errorf("%s: %v", name, err)
			}
			if asked, kept := len(row.Bounds), len(r.Verdicts()); asked != kept {
				t.Errorf("%d bounds, of which %d name somebody who takes part", asked, kept)
			}
		})
	}
}

// A counter that misses commands, or counts those of scripts, would make any lock
// look good or bad.
func TestTheMonitorCountsWhatClientsSend(t *testing.T) {
	t.Parallel()
	server, client := serve(t)
	m := &monitor{addr: server.Addr(), client: client}
	for range 2 {
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		for _, command := range [][]string{
			{"PING"}, {"SET", "a", "1"}, {"EVAL", "redis.call('SET', 'b', '1') return redis.call('GET', 'b')", "0"}, {"GET", "a"},
		} {
			if err := client.Do(ctx, client.B().Arbitrary(command...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := m.Stop(ctx); err != nil || n != 3 {
			t.Errorf("%d commands, %v; want 3", n, err)
		}
	}
}
