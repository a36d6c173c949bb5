package zklock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A List whose caller goes away leaves its call to the library behind, which writes
// its answer when it comes: no other goroutine may read it. The race detector tells.
func TestAListThatIsCalledOffLeavesItsAnswerAlone(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)})
	s := open(t, e, 10*time.Second)
	if _, err := s.Enter(t.Context(), driver.Claim{ID: "00000000000000000000000000000001", Try: 1, Name: t.Name(), Need: 1, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*5*time.Microsecond, cancel)
		for _, err := range e.List(ctx, "") {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		cancel()
	}
}

func TestALineCostsTheSameHoweverManyOtherNames(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	a, b := mutex(), mutex()
	hold(t, s, a)
	stand(t, s, b)
	for i := range 50 {
		c := mutex()
		c.Name = fmt.Sprintf("job/%d", i) // as a List of "job" would go through
		hold(t, s, c)
	}
	n.take()
	line, err := e.Line(t.Context(), "job")
	if err != nil || len(line) != 2 || line[0].ID != a.ID || line[1].ID != b.ID {
		t.Fatalf("Line: %+v, %v", line, err)
	}
	n.expect(t, "a line of two", 4) // catch up, its children, and each of them
	if line, err := e.Line(t.Context(), "unused"); err != nil || len(line) != 0 {
		t.Errorf("a name without claims: %+v, %v", line, err)
	}
	n.expect(t, "a name without claims", 2)
}

func TestAnEvictionReadsNoOtherClaim(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	hold(t, s, mutex())
	for range 30 {
		stand(t, s, mutex())
	}
	line := listed(t, e, "job")
	for _, x := range []driver.Entry{line[0], line[17]} {
		n.take()
		if err := e.Evict(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		n.expect(t, "an eviction", 4) // catch up, the children, the claim, and its end
	}
	for _, x := range listed(t, e, "job") {
		if x.ID == line[0].ID || x.ID == line[17].ID {
			t.Errorf("%s is still there", x.ID)
		}
	}
}

// A pawl from before nodes had marks may be in the same line while machines are
// upgraded one by one.
func TestNodesOfAnOlderPawlStandInTheSameLine(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	for _, size := range [][2]int{{1, 1}, {2, 3}} {
		older, c := claim(size[0], size[1]), claim(size[0], size[1])
		prefix := exclusivePrefix
		if !older.Exclusive() {
			prefix = sharedPrefix + "2.3."
		}
		node, err := conn.Create(e.linePath("job")+"/"+prefix, encodeData(uint64(conn.SessionID()), "older", older),
			zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		stand(t, s, c)
		expectLine(t, e, older, c)
		if size[0] == 1 {
			err = e.Evict(t.Context(), listed(t, e, "job")[0])
		} else {
			err = conn.Delete(node, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		turn(t, s, c)
		leave(t, s, c)
	}
}
