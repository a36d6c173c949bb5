package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAStrayChildBlocksNobody(t *testing.T) {
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
	watches := newPauser(3, opGetData) // the first two are for its evict node
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

// The same where so many are in the way together that the line itself is watched.
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
	watches := newPauser(5, opGetChildren) // three are of Connect, and one is of the look
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
func TestATryIsNotTakenInByALineThatWasMadeAnew(t *testing.T) {
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
func TestARemovedRootIsMadeAnew(t *testing.T) {
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

// Whether by number or by zxid, the order is that of arrival.
func TestTheOrderSurvivesTheEndOfTheSequenceNumbers(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t, "maxSessionTimeout=200000")
	e := connect(t, []string{server.Addr()})
	s := open(t, e, 2*time.Minute)
	c := mutex()
	hold(t, s, c)
	leave(t, s, c)
	server.Stop()
	wind(t, server, e.linePath("job"), math.MaxInt32-3)
	server.Restart()

	var cs []driver.Claim
	last := uint64(0)
	for i := range 8 {
		c := mutex()
		if i%3 == 2 {
			c = claim(1, driver.All)
		}
		cs = append(cs, c)
		err := persist(func() error { _, err := s.Enter(t.Context(), c); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	nodes := map[int32]int{}
	var n *line
	if err := persist(func() (err error) { n, err = e.read(t.Context(), e.main, "job"); return err }); err != nil {
		t.Fatal(err)
	}
	for _, c := range n.nodes {
		nodes[c.seq]++
	}
	t.Logf("sequence numbers given: %v", nodes)
	if nodes[math.MaxInt32-3] != 1 || len(n.nodes) != len(cs) {
		t.Fatalf("the numbers did not come near their end: %v", nodes)
	}
	expectLine(t, e, cs...)
	for i, c := range cs {
		st := turn(t, s, c)
		if st.Token <= last {
			t.Errorf("claim %d: token %d follows %d", i, st.Token, last)
		}
		last = st.Token
		for _, later := range cs[i+1:] {
			if st := enter(t, s, later); st.Held {
				t.Fatalf("a later claim holds beside claim %d", i)
			}
		}
		leave(t, s, c)
	}
}

// A server that has forgotten how many had come to a line gives numbers twice.
func TestNumbersThatAreGivenTwiceLeaveTheOrder(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	var cs []driver.Claim
	for i := range 6 {
		c := mutex()
		c.Try = 2 // so that Enter finds the node, as one that is repeated does
		_, err := conn.Create(fmt.Sprintf("%s/%s%010d", e.linePath("job"), nodePrefix(c), 5+i%3), encodeData(s.zs.ID, s.id, c),
			zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	for i, c := range cs {
		if st := enter(t, s, c); st.Held != (i == 0) || st.Ahead != i {
			t.Fatalf("claim %d: %+v", i, st)
		}
	}
	for _, c := range cs {
		turn(t, s, c)
		leave(t, s, c)
	}
}

// wind sets how many children a node has had, in the snapshot of a server that
// is not running.
func wind(t *testing.T, server *testserver.Server, path string, created int32) {
	t.Helper()
	dir := filepath.Join(server.Dir(), "data", "version-2")
	// Restarting has the server write all it knows to a snapshot; without its logs
	// that is all it will know.
	server.Restart()
	server.Stop()
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	if err != nil || len(snapshots) == 0 {
		t.Fatalf("snapshots: %v, %v", snapshots, err)
	}
	slices.SortFunc(snapshots, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	newest := snapshots[len(snapshots)-1]
	data, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	key := binary.BigEndian.AppendUint32(nil, uint32(len(path)))
	key = append(key, path...)
	at := strings.Index(string(data), string(key))
	if at < 0 {
		t.Fatalf("%s is not in %s", path, newest)
	}
	at += len(key)
	if n := int32(binary.BigEndian.Uint32(data[at:])); n > 0 {
		at += int(n)
	}
	at += 4 + 8 // the data's length, and the ACL's number
	at += 4*8 + 4
	binary.BigEndian.PutUint32(data[at:], uint32(created)) // after czxid, mzxid, ctime, mtime and version
	rewriteSnapshot(t, newest, data)
	logs, _ := filepath.Glob(filepath.Join(dir, "log.*"))
	for _, log := range logs {
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
}

// rewriteSnapshot puts the sums right: there is one after the tree, and one after
// the digest that may follow. Each is a long, and the text "/".
func rewriteSnapshot(t *testing.T, file string, data []byte) {
	t.Helper()
	const tail = 8 + 4 + 1
	end := len(data)
	first := end - tail
	if second := end - tail - digestSize - tail; second > 0 && string(data[second+8:second+13]) == "\x00\x00\x00\x01/" {
		binary.BigEndian.PutUint64(data[second:], uint64(adler32.Checksum(data[:second])))
	}
	binary.BigEndian.PutUint64(data[first:], uint64(adler32.Checksum(data[:first])))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// digestSize is what lies between the two sums: zxid, version and digest.
const digestSize = 8 + 4 + 8

// Fairness through the public API, over processes that all come and go.
func TestReadersAndWritersOfManyClientsExclude(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var inside [2]chan struct{}
	inside[0], inside[1] = make(chan struct{}, 64), make(chan struct{}, 1)
	errs := make(chan error, 6)
	for i := range 6 {
		c := pawl.New(connect(t, []string{oneServer(t)}, WithPath(path)))
		t.Cleanup(func() { c.Close() })
		go func() {
			errs <- func() error {
				rw := c.RWMutex("catalogue")
				for range 15 {
					if i%3 == 0 {
						l, err := rw.Lock(ctx)
						if err != nil {
							return err
						}
						if len(inside[0]) > 0 || len(inside[1]) > 0 {
							return fmt.Errorf("a writer beside %d readers and %d writers", len(inside[0]), len(inside[1]))
						}
						inside[1] <- struct{}{}
						<-inside[1]
						if err := l.Unlock(); err != nil {
							return err
						}
						continue
					}
					l, err := rw.RLock(ctx)
					if err != nil {
						return err
					}
					inside[0] <- struct{}{}
					if len(inside[1]) > 0 {
						return errors.New("a reader beside a writer")
					}
					<-inside[0]
					if err := l.Unlock(); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
