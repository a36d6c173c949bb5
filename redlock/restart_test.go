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
	"github.com/pawl-go/pawl/internal/testserver"
)

// newSavedField is a field of servers that keep what they are told to SAVE across
// a restart, and forget what came after it.
func newSavedField(t *testing.T, n int, query string) *field {
	t.Helper()
	f := &field{query: query}
	for range n {
		f.servers = append(f.servers, testserver.Redis(t, "--dbfilename", "dump.rdb"))
	}
	f.veil(t)
	f.ripen(t)
	return f
}

// saved has every server write what it knows to its disk.
func (f *field) saved(t *testing.T) {
	t.Helper()
	for i := range f.servers {
		if err := f.at(t, i, "SAVE").Error(); err != nil {
			t.Fatal(err)
		}
	}
}

func exclusive(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1}
}

// held enters c until it is held.
func held(t *testing.T, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	var st driver.Standing
	until(t, 10*time.Second, "held", func() bool {
		var err error
		if st, err = s.Enter(t.Context(), c); err != nil || !st.Held {
			c.Try++ // as the core does after an answer
		}
		return err == nil && st.Held
	})
	return st
}

// A neighbour is a quorum with another prefix on the same servers, or in another
// database. What it does to a server must not tell a node that it is the one it was.
func TestARestartedNodeDoesNotVoteWhateverItsNeighboursDo(t *testing.T) {
	t.Parallel()
	for about, test := range map[string]struct {
		away bool // the holder does not reach server 2
		lost []int
		next func(id, name string) driver.Claim
	}{
		"one of the holder's majority":   {away: true, lost: []int{1}, next: exclusive},
		"the same, and a reader's turn":  {away: true, lost: []int{1}, next: reader},
		"all three":                      {lost: []int{0, 1, 2}, next: exclusive},
		"all three, and a reader's turn": {lost: []int{0, 1, 2}, next: reader},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			const ttl = 5 * time.Second
			f := newSavedField(t, 3, brief)
			a, b := open(t, f.hosts(), f.query), open(t, f.hosts(), f.query)
			defer a.Close()
			defer b.Close()
			other := open(t, addrs(f.servers), f.query+"&prefix=other:")
			defer other.Close()
			neighbour := seat(t, other, "neighbour", ttl)
			holder, rival := seat(t, a, "holder", ttl), seat(t, b, "rival", ttl)
			for i, s := range []driver.Session{holder, rival} {
				c := exclusive(fmt.Sprintf("%02x", i), "warm")
				held(t, s, c)
				c.Try = 1 << 20
				_ = s.Leave(t.Context(), c)
			}
			f.saved(t)
			sent := time.Now()
			st := f.heldWithout(t, test.away, 2, holder, exclusive("aa", "name"))
			for _, i := range test.lost {
				f.servers[i].Kill()
			}
			for _, i := range test.lost {
				f.servers[i].Restart() // it knows the quorum, and not who holds the name
			}
			until(t, 30*time.Second, "used by the neighbour", func() bool {
				f.use(t, neighbour)
				return f.silent(t, "other:", test.lost)
			})
			f.use(t, neighbour)
			tries := 0
			for c := test.next("bb", "name"); time.Since(sent) < ttl; c.Try++ {
				time.Sleep(5 * time.Millisecond) // some hundred tries are enough
				got, err := rival.Enter(t.Context(), c)
				if tries++; err == nil && got.Held && time.Since(sent) < ttl {
					t.Errorf("at the try %d, %v after the holder asked for %v, the rival holds beside it: tokens %d and %d", tries, time.Since(sent), ttl, st.Token, got.Token)
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

// heldWithout enters c, whose request does not get to server i if it is away.
func (f *field) heldWithout(t *testing.T, away bool, i int, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	if !away {
		return held(t, s, c)
	}
	asked := make(chan struct{}, 1)
	f.proxies[i].OnChunk(func(k faultproxy.Chunk) {
		if k.Stage == faultproxy.Arrived && bytes.Contains(k.Data, []byte(c.ID)) {
			select {
			case asked <- struct{}{}:
			default: // it was before
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
	f.proxies[i].Reset() // with what was on its way
	f.proxies[i].Heal()
	return st
}

// use has a session ask every server for something, in every way there is.
func (f *field) use(t *testing.T, s driver.Session) {
	t.Helper()
	for k := range 2 * len(f.servers) { // a name asks some servers first
		for i, kind := range []func(id, name string) driver.Claim{exclusive, reader} {
			c := kind(fmt.Sprintf("c%d%d", i, k), fmt.Sprint("busy", i, k))
			_, _ = s.Enter(t.Context(), c)
			_ = s.Leave(t.Context(), c)
		}
	}
}

// silent reports whether servers know that they do not vote in a neighbour's quorum.
func (f *field) silent(t *testing.T, prefix string, of []int) bool {
	t.Helper()
	return !slices.ContainsFunc(of, func(i int) bool {
		votes, err := f.at(t, i, "HGET", prefix+"\x01q", "votes").ToString()
		return err != nil || votes != "0"
	})
}

func reader(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: driver.All}
}

// A server that was made the replica of another for a moment knows what that one
// knew, the roll of its quorum included, and was not restarted.
func TestANodeWithTheDataOfAnotherDoesNotVote(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	f := newOwnField(t, 3, brief)
	a, b := open(t, f.hosts(), f.query), open(t, f.hosts(), f.query)
	defer a.Close()
	defer b.Close()
	holder, rival := seat(t, a, "holder", ttl), seat(t, b, "rival", ttl)
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
		time.Sleep(5 * time.Millisecond) // some hundred tries are enough
		got, err := rival.Enter(t.Context(), c)
		if tries++; err == nil && got.Held && time.Since(sent) < ttl {
			t.Fatalf("at the try %d the rival holds beside the holder: tokens %d and %d", tries, st.Token, got.Token)
		}
		_ = rival.Leave(t.Context(), c)
	}
	t.Logf("%d tries", tries)
}

func TestAnOperatorWhoFlushesTheScriptsCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	f := newOwnField(t, 3, brief)
	a, b := open(t, f.hosts(), f.query), open(t, f.hosts(), f.query)
	defer a.Close()
	defer b.Close()
	holder, rival := seat(t, a, "holder", ttl), seat(t, b, "rival", ttl)
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
