package zklock

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

func TestATokenIsTheZxidOfItsNodeAmongOthers(t *testing.T) {
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
