package redlock_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// save makes every server write its state to disk.
func (f *cluster) save(t *testing.T) {
	t.Helper()
	for i := range f.servers {
		if err := f.at(t, i, "SAVE").Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// A neighbour is a quorum with another prefix on the same servers. What it writes to a
// restarted server must not make the server look as if it had not restarted.
func TestARestartedNodeDoesNotVoteWhateverItsNeighboursDo(t *testing.T) {
	t.Parallel()
	for about, test := range map[string]struct {
		away bool // the holder does not reach server 2
		lost []int
		next func(id, name string) driver.Claim
	}{
		"one of the holder's majority":       {away: true, lost: []int{1}, next: exclusive},
		"the same, and a reader comes next":  {away: true, lost: []int{1}, next: reader},
		"all three":                          {lost: []int{0, 1, 2}, next: exclusive},
		"all three, and a reader comes next": {lost: []int{0, 1, 2}, next: reader},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			const ttl = 5 * time.Second
			f := newSavedCluster(t, 3, shortMaxTTL)
			other := open(t, addrs(f.servers), f.query+"&prefix=other:")
			defer other.Close()
			neighbour := openSession(t, other, "neighbour", ttl)
			holder, rival := f.session(t, "holder", ttl), f.session(t, "rival", ttl)
			for i, s := range []driver.Session{holder, rival} {
				c := exclusive(fmt.Sprintf("%02x", i), "warm")
				held(t, s, c)
				c.Try = 1 << 20
				_ = s.Leave(t.Context(), c)
			}
			f.save(t)
			sent := time.Now()
			st := f.heldWithout(t, test.away, 2, holder, exclusive("aa", "name"))
			for _, i := range test.lost {
				f.servers[i].Kill()
			}
			for _, i := range test.lost {
				f.servers[i].Restart() // it knows the quorum, and not the holder
			}
			until(t, 30*time.Second, "used by the neighbour", func() bool {
				f.use(t, neighbour)
				return f.silent(t, "other:", test.lost)
			})
			f.use(t, neighbour)
			tries := 0
			for c := test.next("bb", "name"); time.Since(sent) < ttl; c.Try++ {
				time.Sleep(5 * time.Millisecond) // some hundreds of tries are enough
				got, err := rival.Enter(t.Context(), c)
				if tries++; err == nil && got.Held && time.Since(sent) < ttl {
					t.Errorf("at try %d, %v after the holder asked for %v, the rival holds beside it: tokens %d and %d", tries, time.Since(sent), ttl, st.Token, got.Token)
					return
				}
				_ = rival.Leave(t.Context(), c)
			}
			t.Logf("%d tries", tries)
			until(t, 30*time.Second, "voting again", func() bool {
				_, _ = rival.Enter(t.Context(), exclusive("cc", "look"))
				return !slices.ContainsFunc(test.lost, func(i int) bool { return !f.votes(t, i) })
			})
			c := test.next("dd", "name")
			if next := held(t, rival, c); next.Token <= st.Token {
				t.Errorf("token %d after %d", next.Token, st.Token)
			}
		})
	}
}

// heldWithout enters c; if away is set, the request does not reach server i.
func (f *cluster) heldWithout(t *testing.T, away bool, i int, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	if !away {
		return held(t, s, c)
	}
	asked := make(chan struct{}, 1)
	f.proxies[i].OnChunk(func(k faultproxy.Chunk) {
		if k.Stage == faultproxy.Arrived && bytes.Contains(k.Data, []byte(c.ID)) {
			select {
			case asked <- struct{}{}:
			default: // reported before
			}
		}
	})
	f.proxies[i].BlackHole(faultproxy.ToServer)
	st := held(t, s, c)
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Fatalf("server %d was not asked", i)
	}
	f.proxies[i].OnChunk(nil)
	f.proxies[i].Reset() // with the requests in flight
	f.proxies[i].Heal()
	return st
}

// use makes a session send requests of all kinds to every server.
func (f *cluster) use(t *testing.T, s driver.Session) {
	t.Helper()
	for k := range 2 * len(f.servers) { // a name is asked of some servers first
		for i, kind := range []func(id, name string) driver.Claim{exclusive, reader} {
			c := kind(fmt.Sprintf("c%d%d", i, k), fmt.Sprint("busy", i, k))
			_, _ = s.Enter(t.Context(), c)
			_ = s.Leave(t.Context(), c)
		}
	}
}

// silent reports whether servers know that they do not vote in the quorum of a prefix.
func (f *cluster) silent(t *testing.T, prefix string, of []int) bool {
	t.Helper()
	return !slices.ContainsFunc(of, func(i int) bool {
		votes, err := f.at(t, i, "HGET", prefix+"\x01q", "votes").ToString()
		return err != nil || votes != "0"
	})
}

// A server that was the replica of another for a moment has the data of that server, with
// the membership record of its quorum, and was not restarted.
func TestANodeWithTheDataOfAnotherDoesNotVote(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	f := newOwnCluster(t, 3, shortMaxTTL)
	holder, rival := f.session(t, "holder", ttl), f.session(t, "rival", ttl)
	f.use(t, rival)
	sent := time.Now()
	st := f.heldWithout(t, true, 2, holder, exclusive("aa", "name"))
	host, port, err := net.SplitHostPort(f.servers[2].Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.at(t, 1, "REPLICAOF", host, port).Error(); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "a replica", func() bool {
		info, err := f.at(t, 1, "INFO", "replication").ToString()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	if err := f.at(t, 1, "REPLICAOF", "NO", "ONE").Error(); err != nil {
		t.Fatal(err)
	}
	tries := 0
	for c := exclusive("bb", "name"); time.Since(sent) < ttl; c.Try++ {
		time.Sleep(5 * time.Millisecond) // some hundreds of tries are enough
		got, err := rival.Enter(t.Context(), c)
		if tries++; err == nil && got.Held && time.Since(sent) < ttl {
			t.Fatalf("at try %d the rival holds beside the holder: tokens %d and %d", tries, st.Token, got.Token)
		}
		_ = rival.Leave(t.Context(), c)
	}
	t.Logf("%d tries", tries)
}

func TestFlushedScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	f := newOwnCluster(t, 3, shortMaxTTL)
	holder, rival := f.session(t, "holder", ttl), f.session(t, "rival", ttl)
	c := exclusive("aa", "name")
	if st, err := holder.Enter(t.Context(), c); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	until(t, ttl, "held everywhere", func() bool { return f.holding(t, "name") == 3 })
	flush := func() {
		for i := range f.servers {
			if err := f.at(t, i, "SCRIPT", "FLUSH").Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	flush()
	if st, err := rival.Enter(t.Context(), exclusive("bb", "name")); err != nil || st.Held {
		t.Errorf("beside a holder: %+v, %v", st, err)
	}
	flush()
	out := make([]driver.Standing, 1)
	if err := holder.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
		t.Errorf("a beat: %+v, %v", out[0], err)
	}
	flush()
	if err := holder.Leave(t.Context(), c); err != nil {
		t.Errorf("Leave: %v", err)
	}
	flush()
	held(t, rival, exclusive("cc", "name"))
}
