package zklock

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// crowded makes a line that s has seen to be long: as many claims may enter by a create.
func crowded(t *testing.T, s *session, creates int) []driver.Claim {
	t.Helper()
	cs := []driver.Claim{mutex()}
	hold(t, s, cs[0])
	for range creates + 1 {
		c := mutex()
		s.mu.Lock()
		s.long = longLine{}
		s.mu.Unlock()
		stand(t, s, c)
		cs = append(cs, c)
	}
	return cs
}

func TestALongLineIsEnteredByACreate(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	cs := crowded(t, s, 2)
	n.take()
	for range 4 {
		c := mutex()
		st := stand(t, s, c)
		if total, ops := n.take(); total != 3 || ops[opCreate2] != 1 { // and a read of the line, and the watch on the one ahead
			t.Errorf("standing in a long line sends %v, not one %d", ops, opCreate2)
		}
		if ahead := len(cs); st.Ahead != ahead {
			t.Errorf("Ahead is %d with %d claims ahead", st.Ahead, ahead)
		}
		cs = append(cs, c)
	}
	expectLine(t, e, cs...)
	var last uint64
	for i, c := range cs {
		if i > 0 {
			leave(t, s, cs[i-1])
			n.take()
			st := turn(t, s, c)
			n.expect(t, fmt.Sprintf("the turn of waiter %d", i), 0)
			if head := listed(t, e, "job")[0]; head.ID != c.ID || !head.Held || head.Fence != st.Token || st.Token <= last {
				t.Errorf("waiter %d has token %d after %d; the line begins with %+v", i, st.Token, last, head)
			}
			last = st.Token
		}
	}
}

func TestTheTokenOfACreateIsItsZxidAmongOthers(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]string{"one node": {one(t)}, "three nodes": three(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := pathOf(t)
			var all sync.WaitGroup
			for i := range 9 {
				s := open(t, connect(t, []string{nodes[i%len(nodes)]}, Path(path)), time.Minute)
				all.Go(func() { takeTurns(t, s, 12) })
			}
			all.Wait()
		})
	}
}

// takeTurns takes and leaves a busy name, and asks for each token whether it is true.
func takeTurns(t *testing.T, s *session, turns int) {
	for range turns {
		c := mutex()
		st, err := s.Enter(t.Context(), c)
		for err == nil && !st.Held {
			st, err = s.Await(t.Context(), c, st)
		}
		if err != nil {
			t.Errorf("entering: %v", err)
			return
		}
		sp, _ := s.viewOf(c)
		_, stat, err := s.l.conn.Exists(s.e.linePath(c.Name) + "/" + sp.node)
		if err != nil || uint64(stat.Czxid) != st.Token {
			t.Errorf("token %d, node %+v, %v", st.Token, stat, err)
		}
		if err := s.Leave(t.Context(), c); err != nil {
			t.Errorf("leaving: %v", err)
		}
	}
}

func TestACrowdThatHasGoneCostsOneLook(t *testing.T) {
	t.Parallel()
	e, n := counting(t, pathOf(t))
	s := open(t, e, time.Minute)
	cs := crowded(t, s, 2)
	for i, c := range cs {
		leave(t, s, c)
		if i+1 < len(cs) {
			turn(t, s, cs[i+1])
		}
	}
	for _, want := range []int{2, 1, 1} { // create, and the line; then as on any free name
		n.take()
		c := mutex()
		hold(t, s, c)
		n.expect(t, "acquiring a name that was crowded", want)
		leave(t, s, c)
	}
}

func TestACreateWithoutAnAnswerIsFoundAgain(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	e, p := through(t, path)
	s := open(t, e, time.Minute)
	cs := crowded(t, s, 2)
	p.SwallowReplies(1, faultproxy.Matching(asks(opCreate2)), faultproxy.ThenCut())
	c := mutex()
	if st, err := s.Enter(t.Context(), c); err == nil {
		t.Fatalf("Enter without an answer: %+v", st)
	}
	var st driver.Standing
	if err := persist(func() (err error) {
		st, err = s.Enter(t.Context(), c)
		return err
	}); err != nil || st.Held || st.Gone {
		t.Fatalf("the same Enter again: %+v, %v", st, err)
	}
	expectLine(t, connect(t, []string{one(t)}, Path(path)), append(cs, c)...)
}

// A create does not raise the container's version, by which a try is refused when
// somebody has come.
func TestATryDoesNotOvertakeWhoCameByACreate(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	n, err := e.read(t.Context(), s.l, s.f, "job")
	if err != nil {
		t.Fatal(err)
	}
	enter := func() bool {
		c := tries(mutex())
		as, _, err := s.arrive(t.Context(), []driver.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		as[0].version, as[0].made, as[0].came = n.version, n.made, n.came
		stats, again, err := s.join(t.Context(), as)
		if again || err != nil {
			t.Fatalf("join: %v, %v", again, err)
		}
		sure := s.sure(as[0], stats[0])
		leave(t, s, c)
		n.version, n.came = n.version+1, n.came+2
		return sure
	}
	if !enter() {
		t.Error("alone it does not hold")
	}
	if _, err := conn.Create(n.path+"/"+exclusiveMark, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if enter() {
		t.Error("it holds although somebody has come")
	}
}
