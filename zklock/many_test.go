package zklock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// manyNames returns claims on n names that nobody has used.
func manyNames(n, size int, queue bool) (cs []driver.Claim) {
	for i := range n {
		c := mutex()
		c.Name, c.Queue = fmt.Sprintf("new/%d%s", i, strings.Repeat("/", size)), queue
		cs = append(cs, c)
	}
	return cs
}

// The containers of all names are made before the Multi that enters the claims is sent
// again: one at a time, the Multi was sent as often as there are names, with all of them.
func TestManyNewNamesAreEnteredInTwoMultis(t *testing.T) {
	t.Parallel()
	const names = 150
	for kind, queue := range map[string]bool{"at once": false, "in line": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e, n := counting(t, pathOf(t))
			s := open(t, e, time.Minute)
			n.take()
			out, err := s.EnterAll(t.Context(), manyNames(names, 0, queue))
			if err != nil {
				t.Fatal(err)
			}
			for i, st := range out {
				if !st.Held {
					t.Fatalf("name %d: %+v", i, st)
				}
			}
			if total, ops := n.take(); ops[opMulti] != 2 || total > 2*names+2 {
				t.Errorf("%d names cost %d requests, %d of them Multis", names, total, ops[opMulti])
			}
		})
	}
}

// A request that is larger than the library's buffer is refused as what cannot be done in
// one step, without any request, and the core takes the names one after the other.
func TestNamesThatDoNotFitIntoOneRequest(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	n.take()
	many := manyNames(320, 240, false) // a slash has three bytes in a path
	_, err := s.EnterAll(t.Context(), many)
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "320 names") {
		t.Errorf("%v", err)
	}
	if total, ops := n.take(); total != 0 {
		t.Errorf("it cost %v", ops)
	}
	c := pawl.New(e)
	defer c.Close()
	var names []string
	for _, x := range many {
		names = append(names, x.Name)
	}
	l, err := c.TryLockAll(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// A quota that its administrator enforces is a refusal, not a silent server.
func TestAnExceededQuotaIsARefusal(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t, "-Dzookeeper.enforceQuota=true")
	e := connect(t, []string{server.Addr()})
	admin, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	for _, node := range [][2]string{
		{"/zookeeper/quota/pawl", ""},
		{"/zookeeper/quota/pawl/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=6"},
		{"/zookeeper/quota/pawl/zookeeper_stats", "count=4,bytes=0"}, // /pawl and its three
	} {
		if _, err := admin.Create(node[0], []byte(node[1]), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	c := pawl.New(e)
	defer c.Close()
	for i := range 4 {
		_, err = c.Mutex(fmt.Sprint("job ", i)).TryLock(t.Context())
		if err != nil {
			break
		}
	}
	if !errors.Is(err, pawl.ErrDenied) || errors.Is(err, pawl.ErrUnreachable) || !strings.Contains(err.Error(), "quota") {
		t.Errorf("%v, not a refusal because of the quota", err)
	}
}
