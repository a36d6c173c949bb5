package zklock

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

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
	windForward(t, server, e.linePath("job"), math.MaxInt32-3)
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

// windForward sets how many children a node has had, in the snapshot of a server that
// is not running.
func windForward(t *testing.T, server *testserver.Server, path string, created int32) {
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
