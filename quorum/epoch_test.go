package quorum_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// memNodes opens an engine on three nodes in memory.
func memNodes(t *testing.T, opts ...quorum.Option) (mem []*memlock.Engine, e *quorum.Engine) {
	t.Helper()
	all := nodes(3)
	for _, n := range all {
		mem = append(mem, n.Engine.(*memlock.Engine))
	}
	return mem, open(t, all, opts...)
}

// raise moves one node to the next epoch, sets its mark, and returns the previous epoch.
func raise(t *testing.T, e *quorum.Engine, at *memlock.Engine, high uint64) uint64 {
	t.Helper()
	v := sessionOf(t, at, "m", time.Second).(driver.Voter)
	if _, err := v.Enlist(t.Context(), e.ID()); err != nil {
		t.Fatal(err)
	}
	_, epoch, _ := v.Mark(t.Context())
	if err := v.Rejoin(t.Context(), high, epoch+1); err != nil {
		t.Fatal(err)
	}
	return epoch
}

func TestALateGrantOfAnotherEpochConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrives := make(chan struct{})
		mem, all := hookNodes(3, func(i int, op string, c *driver.Claim) error {
			switch {
			case op == "enter":
				c.Propose = 0
				if i == 2 { // the Enter reaches n3 late
					<-arrives
				}
			case op == "confirm" && i == 1: // n2's confirmation is lost
				return driver.ErrUnreachable
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		s := sessionOf(t, e, "s", time.Second)
		synctest.Wait()
		direct := sessionOf(t, mem[1], "p", time.Second)
		for k := range 5 { // n2's mark is above the others'
			c := mutex(fmt.Sprintf("%02x", k), "other")
			if _, err := direct.Enter(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			_ = direct.Leave(t.Context(), c)
		}
		held := make(chan bool, 1)
		go func() {
			st, _ := s.Enter(t.Context(), mutex("aa", "name"))
			held <- st.Held
		}()
		time.Sleep(10 * time.Millisecond) // until n1 and n2 have granted, and n1 has confirmed
		epoch := raise(t, e, mem[2], 0)
		close(arrives)
		if <-held {
			t.Errorf("held, though n1 confirmed in epoch %d and n3 in %d", epoch, epoch+1)
		}
	})
}

// A repairer died after it had raised the epoch of one node of three. Grants of that node
// and of another are never combined, and a claim that gets both wakes the repairer.
func TestNodesThatWereLeftInDifferentEpochsAreRepaired(t *testing.T) {
	for raised := range 3 { // two of them are asked first for the name
		synctest.Test(t, func(t *testing.T) {
			mem, e := memNodes(t)
			defer e.Close()
			s := sessionOf(t, e, "s", time.Minute)
			synctest.Wait()
			raise(t, e, mem[raised], 0)
			c := mutex("aa", "name")
			st, err := s.Enter(t.Context(), c)
			for ; err == nil && !st.Held && c.Try < 10; st, err = s.Enter(t.Context(), c) {
				c.Try++
				time.Sleep(time.Second)
			}
			if err != nil || !st.Held {
				t.Errorf("n%d has an epoch of its own, and the name cannot be locked: %+v, %v", raised+1, st, err)
			}
		})
	}
}

// Nobody holds the name, so a try must not be told that somebody does.
func TestATryIsNotRefusedWhereNodesHaveDifferentEpochs(t *testing.T) {
	for raised := range 3 {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem, e := memNodes(t)
				defer e.Close()
				c := pawl.New(e)
				defer c.Close()
				sessionOf(t, e, "s", time.Minute)
				synctest.Wait()
				raise(t, e, mem[raised], 0)
				try := c.Mutex("name").TryLock
				if shared {
					try = c.RWMutex("name").TryRLock
				}
				if _, err := try(t.Context()); err != nil {
					t.Errorf("n%d has an epoch of its own, and a try of a free name (shared: %v) says %v", raised+1, shared, err)
				}
			})
		}
	}
}

// The marks are ahead of all clocks, as after clocks were set back, and the nodes lose
// their data one after the other.
func TestNodesThatLostTheirMarkGetItFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		mem, e := memNodes(t, quorum.WithMaxTTL(ttl))
		defer e.Close()
		s := sessionOf(t, e, "s", ttl)
		synctest.Wait()
		high := uint64(time.Now().Add(time.Hour).UnixMicro())
		for _, m := range mem {
			raise(t, e, m, high)
		}
		for i, m := range mem {
			m.Forget()
			sessionOf(t, e, fmt.Sprint(i), ttl) // finds that it does not vote
			time.Sleep(10 * ttl)
			if !m.Votes() {
				t.Fatalf("n%d does not vote again", i+1)
			}
		}
		st, err := s.Enter(t.Context(), mutex("aa", "name"))
		if err != nil || !st.Held || st.Token <= high {
			t.Errorf("%+v, %v; the mark was %d", st, err, high)
		}
	})
}
