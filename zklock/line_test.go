package zklock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAStrayChildBlocksNoClaim(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	stray := e.linePath("job") + "/stray"
	if _, err := conn.Create(stray, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a, b := mutex(), mutex()
		hold(t, s, a)
		stand(t, s, b)
		leave(t, s, a)
		turn(t, s, b)
		leave(t, s, b)
		hold(t, s, tries(mutex()))
		s.Close(t.Context())
		s = open(t, e, time.Minute)
	}
	if there, _, err := conn.Exists(stray); err != nil || !there {
		t.Errorf("the stray child: %v, %v; it is not ours to remove", there, err)
	}
}

func TestTheClaimOfAnotherRecipeIsAClearErrorAndLeftAlone(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	theirs := zk.NewLock(conn, e.linePath("job"), zk.WorldACL(zk.PermAll))
	if err := theirs.Lock(); err != nil {
		t.Fatal(err)
	}
	all := []driver.Claim{mutex(), tries(mutex()), claim(1, driver.All)}
	for _, c := range all {
		if st, err := s.Enter(t.Context(), c); !errors.Is(err, errForeign) {
			t.Errorf("Enter beside a foreign claim: %+v, %v", st, err)
		}
	}
	nodes, _, err := conn.Children(e.linePath("job"))
	if err != nil || len(nodes) != 1 || !strings.Contains(nodes[0], "lock-") {
		t.Errorf("in the line: %v, %v; only theirs should be", nodes, err)
	}
	if err := theirs.Unlock(); err != nil {
		t.Fatal(err)
	}
	hold(t, s, mutex())
}

func TestANodeThatCannotHaveALineIsAClearError(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	conn := raw(t)
	if _, err := conn.Create(e.linePath("job"), []byte("theirs"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	s := open(t, e, time.Minute)
	for _, c := range []driver.Claim{mutex(), tries(mutex())} {
		if st, err := s.Enter(t.Context(), c); !errors.Is(err, zk.ErrNoChildrenForEphemerals) {
			t.Errorf("Enter: %+v, %v", st, err)
		}
	}
	if data, _, err := conn.Get(e.linePath("job")); err != nil || string(data) != "theirs" {
		t.Errorf("the node: %q, %v", data, err)
	}
}

// helix PR#44: the claim ahead left between the list and the watch on it, and nothing
// was left to tell.
func TestAPredecessorThatGoesBeforeItIsWatchedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	plain := connect(t, []string{oneServer(t)}, WithPath(path))
	s := open(t, plain, time.Minute)
	ahead, c := mutex(), mutex()
	hold(t, s, ahead)
	watches := newPauser(6, opGetData) // three are of Connect, and two are for its evict node
	late := open(t, connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(watches.dial)), time.Minute)
	entered := make(chan driver.Standing, 1)
	go func() {
		st, err := late.Enter(t.Context(), c)
		if err != nil {
			t.Errorf("Enter: %v", err)
		}
		entered <- st
	}()
	<-watches.stopped
	leave(t, s, ahead)
	close(watches.goOn)
	if st := <-entered; !st.Held {
		t.Errorf("%+v; no claim is ahead any more", st)
	}
	expectLine(t, plain, c)
}

// The same where there are too many blockers, so that the line itself is watched.
func TestAPermitThatIsGivenBackBeforeTheLineIsWatchedIsNotMissed(t *testing.T) {
	t.Parallel()
	const limit = maxWatches + 1
	path := pathOf(t)
	s := open(t, connect(t, []string{oneServer(t)}, WithPath(path)), time.Minute)
	var holders []driver.Claim
	for range limit {
		holders = append(holders, claim(1, limit))
	}
	if _, err := s.EnterAll(t.Context(), holders); err != nil {
		t.Fatal(err)
	}
	watches := newPauser(2, opGetChildren) // the first is of the look
	late := open(t, connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(watches.dial)), time.Minute)
	entered := make(chan driver.Standing, 1)
	go func() {
		st, err := late.Enter(t.Context(), claim(1, limit))
		if err != nil {
			t.Errorf("Enter: %v", err)
		}
		entered <- st
	}()
	<-watches.stopped
	leave(t, s, holders[0])
	close(watches.goOn)
	if st := <-entered; !st.Held {
		t.Errorf("%+v; a permit is free", st)
	}
}

// A reader has seen that there is room beside another, and comes to a line that looks
// the same by its counts: it is a new one, in which a writer holds.
func TestATryDoesNotTrustALineThatWasCreatedAnew(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e := connect(t, []string{oneServer(t)}, WithPath(path))
	s := open(t, e, time.Minute)
	reader, writer := claim(1, driver.All), claim(driver.All, driver.All)
	hold(t, s, reader)
	joins := newPauser(1, opMulti)
	late := open(t, connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(joins.dial)), time.Minute)
	entered := make(chan driver.Standing, 1)
	go func() {
		st, err := late.Enter(t.Context(), tries(claim(1, driver.All)))
		if err != nil {
			t.Errorf("Enter: %v", err)
		}
		entered <- st
	}()
	<-joins.stopped
	leave(t, s, reader)
	if err := raw(t).Delete(e.linePath("job"), -1); err != nil {
		t.Fatal(err)
	}
	hold(t, s, writer)
	close(joins.goOn)
	if st := <-entered; st.Held {
		t.Errorf("%+v; a writer holds", st)
	}
	expectLine(t, e, writer)
}

// The container is removed between two holds, by the servers or by hand: sequence
// numbers begin anew, tokens do not.
func TestTokensGrowAcrossARemovedContainer(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	conn := raw(t)
	last := uint64(0)
	for range 3 {
		c := mutex()
		token := hold(t, s, c).Token
		if token <= last {
			t.Errorf("token %d follows %d", token, last)
		}
		last = token
		leave(t, s, c)
		if err := conn.Delete(e.linePath("job"), -1); err != nil {
			t.Fatal(err)
		}
	}
}

// The lines of the whole engine are removed under it.
func TestARemovedRootIsCreatedAnew(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	conn := raw(t)
	for _, path := range []string{e.lines, e.records, e.evictions, e.root} {
		if err := conn.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
	a, b := mutex(), mutex()
	hold(t, s, a)
	stand(t, s, b)
	out := make([]driver.Standing, 2)
	if err := s.Beat(t.Context(), []driver.Claim{a, b}, out); err != nil || out[0].Gone || out[1].Gone {
		t.Errorf("Beat: %+v, %v", out, err)
	}
	if _, err := e.Store(t.Context(), "key", []byte("value"), 0, 0); err != nil {
		t.Error(err)
	}
	leave(t, s, a)
	turn(t, s, b)
}

func TestAnIdleNameIsRemovedByTheServer(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t, "-Dznode.container.checkIntervalMs=50")
	e := connect(t, []string{server.Addr()})
	s := open(t, e, time.Minute)
	for i := range 20 {
		c := mutex()
		c.Name = fmt.Sprintf("job/%d", i)
		hold(t, s, c)
		if i > 0 {
			leave(t, s, c)
		}
	}
	expectEvents(t, s, func() bool {
		nodes, err := e.names(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(nodes) == 1
	})
	// And while it goes on, names come and go without a fault.
	for range 300 {
		c := tries(mutex())
		if rand.IntN(2) == 0 {
			c.Queue = true
		}
		hold(t, s, c)
		leave(t, s, c)
		if err := s.Beat(t.Context(), nil, nil); err != nil { // a slow machine may need longer than a TTL for all
			t.Fatal(err)
		}
	}
}

// digestSize is what lies between the two sums: zxid, version and digest.
const digestSize = 8 + 4 + 8
