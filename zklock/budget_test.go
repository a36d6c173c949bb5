package zklock

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// counting returns an engine whose requests are counted.
func counting(t *testing.T, path string) (*Engine, *counter) {
	n := &counter{}
	return connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(n.dial)), n
}

func (n *counter) expect(t *testing.T, what string, want int) {
	t.Helper()
	if got, ops := n.take(); got != want {
		t.Errorf("%s: %d requests %v, not %d", what, got, ops, want)
	}
}

func TestAFreeLockCostsOneRequestAndItsReleaseOne(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1, 1}, {1, driver.All}, {2, 5}, {driver.All, driver.All}} {
		t.Run(fmt.Sprintf("%d of %d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			e, n := counting(t, pathOf(t))
			s := open(t, e, time.Minute)
			first := claim(size[0], size[1])
			hold(t, s, first) // makes the container
			leave(t, s, first)
			n.take()
			for range 3 {
				c := claim(size[0], size[1])
				hold(t, s, c)
				n.expect(t, "acquiring a free name", 1)
				leave(t, s, c)
				n.expect(t, "releasing it", 1)
			}
		})
	}
}

func TestAHandoverCostsTheNextHolderNothing(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	const waiting = 4
	cs := make([]driver.Claim, waiting+1)
	for i := range cs {
		cs[i] = mutex()
	}
	hold(t, s, cs[0])
	stand(t, s, cs[1]) // creates the evict node
	n.take()
	for _, c := range cs[2:] {
		stand(t, s, c)
		n.expect(t, "standing in a busy line", 3) // enter, read the line, and watch the claim right ahead
	}
	for i, c := range cs[:waiting] {
		leave(t, s, c)
		n.expect(t, "releasing", 1)
		turn(t, s, cs[i+1])
		n.expect(t, fmt.Sprintf("the turn of waiter %d", i+1), 0)
	}
}

func TestAWaitCostsItsBeatsAlone(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, n := counting(t, path)
	const ttl = 2 * time.Second
	holder, waiter := open(t, connect(t, []string{oneServer(t)}, WithPath(path)), time.Minute), open(t, e, ttl)
	a, b := mutex(), mutex()
	hold(t, holder, a)
	stand(t, waiter, b)
	held := turnLater(t, waiter, b) // ends with a's Leave
	out := make([]driver.Standing, 1)
	beat := func() {
		if err := waiter.Beat(t.Context(), []driver.Claim{b}, out); err != nil || out[0].Valid <= 0 || out[0].Held {
			t.Errorf("Beat: %+v, %v", out[0], err)
		}
	}
	beat() // sets the watch on its own node
	n.take()
	beats := 0
	for began := time.Now(); time.Since(began) < 2*ttl; time.Sleep(ttl / 8) {
		beat()
		beats++
	}
	n.expect(t, fmt.Sprintf("waiting, with %d beats", beats), beats)
	leave(t, holder, a)
	<-held
}

// No event is lost, but if one were, it would be found out, and without reading the
// whole line.
func TestAWatchThatDoesNotFireIsNotTrustedForEver(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	s.recheck = 20 * time.Millisecond
	a, b := mutex(), mutex()
	hold(t, s, a)
	stand(t, s, b)
	n.take()
	s.mu.Lock()
	set := s.claims[b.ID].waiting.blockers[0]
	s.claims[b.ID].waiting.blockers[0] = &zkstore.Watch{Key: set.Key, Stat: set.Stat} // never fires
	s.mu.Unlock()
	held := turnLater(t, s, b) // ends with a's Leave
	time.Sleep(10 * s.recheck)
	if total, ops := n.take(); total == 0 || total != ops[opExists] {
		t.Errorf("while all was well it sent %v", ops)
	}
	leave(t, s, a)
	<-held
}

// A waiter that gives up is not a holder that leaves: the next must look.
func TestTheTurnBehindAWaiterThatLeftCostsOneRead(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	a, b, c := mutex(), mutex(), mutex()
	hold(t, s, a)
	stand(t, s, b)
	stand(t, s, c)
	leave(t, s, b)
	n.take()
	done := turnLater(t, s, c)
	expectEvents(t, s, func() bool { // it has read the line, and watches the holder
		s.mu.Lock()
		defer s.mu.Unlock()
		cs := s.claims[c.ID]
		return cs.waiting != nil && cs.waiting.sole
	})
	if got, ops := n.take(); got > 2 { // the line, and a watch unless there is one
		t.Errorf("reading the line costs %d requests %v", got, ops)
	}
	leave(t, s, a)
	n.expect(t, "releasing", 1)
	if st := <-done; !st.Held {
		t.Errorf("%+v", st)
	}
	n.expect(t, "the turn", 0)
}

// expectEvents waits for what only the servers' events bring about.
func expectEvents(t *testing.T, s *session, there func() bool) {
	t.Helper()
	for begun := time.Now(); !there(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("the events have brought nothing")
		}
	}
}

func TestATryCostsTwoRequestsOnAFreeNameAndFourOnABusyOne(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	first := mutex()
	hold(t, s, first)
	leave(t, s, first)
	n.take()
	c := tries(mutex())
	hold(t, s, c)
	n.expect(t, "trying a free name", 2) // read the line, and enter if no claim has come since
	if st := enter(t, s, tries(mutex())); st.Held || st.Holder == nil || st.Holder.ID != c.ID {
		t.Errorf("a busy name: %+v", st)
	}
	n.expect(t, "trying a busy name", 4) // read the line, catch up, read again, and read the holder
}

func TestABeatCostsOneRequestForAnyNumberOfClaims(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	var live []driver.Claim
	for i := range 50 {
		c := mutex()
		c.Name = fmt.Sprintf("job/%d", i)
		hold(t, s, c)
		live = append(live, c)
	}
	out := make([]driver.Standing, len(live))
	beat := func() {
		t.Helper()
		clear(out)
		if err := s.Beat(t.Context(), live, out); err != nil {
			t.Fatal(err)
		}
		for i, st := range out {
			if !st.Held || st.Valid <= 0 {
				t.Fatalf("claim %d: %+v", i, st)
			}
		}
	}
	n.take()
	beat()
	n.expect(t, "the first beat, which sets the watches", 1+len(live))
	for range 3 {
		beat()
		n.expect(t, "a beat", 1)
	}
}

func TestSeveralNamesCostOneRequest(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	for round := range 2 {
		var cs []driver.Claim
		for i := range 5 {
			c := mutex()
			c.Name = fmt.Sprintf("job/%d", i)
			cs = append(cs, c)
		}
		n.take()
		out, err := s.EnterAll(t.Context(), cs)
		if err != nil {
			t.Fatal(err)
		}
		if round == 1 { // the containers are there
			n.expect(t, "entering five free names", 1)
		}
		for i, c := range cs {
			if !out[i].Held {
				t.Errorf("claim %d: %+v", i, out[i])
			}
			leave(t, s, c)
		}
	}
}
