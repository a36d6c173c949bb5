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
	for name, nodes := range map[string][]string{"one node": {oneServer(t)}, "three nodes": threeServers(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := pathOf(t)
			var all sync.WaitGroup
			for i := range 9 {
				s := open(t, connect(t, []string{nodes[i%len(nodes)]}, WithPath(path)), time.Minute)
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
		cs, _ := s.waitStateOf(c)
		var stat *zk.Stat
		err = s.zs.Call(t.Context(), func(conn *zk.Conn) (err error) {
			_, stat, err = conn.Exists(s.e.linePath(c.Name) + "/" + cs.node)
			return err
		})
		if err != nil || uint64(stat.Czxid) != st.Token {
			t.Errorf("token %d, node %+v, %v", st.Token, stat, err)
		}
		if err := s.Leave(t.Context(), c); err != nil {
			t.Errorf("leaving: %v", err)
		}
	}
}

// A plain create does not raise the container's version, on which a try depends.
func TestATryDoesNotOvertakeAClaimThatEnteredByAPlainCreate(t *testing.T) {
	t.Parallel()
	e, s, conn := usedLine(t)
	n, err := e.read(t.Context(), s.zs, "job")
	if err != nil {
		t.Fatal(err)
	}
	enter := func() bool {
		c := tries(mutex())
		as, _, err := s.register(t.Context(), []driver.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		as[0].version, as[0].container, as[0].creations = n.version, n.container, n.creations
		stats, again, err := s.insert(t.Context(), as)
		if again || err != nil {
			t.Fatalf("join: %v, %v", again, err)
		}
		sure := s.isHeldByReply(as[0], stats[0])
		leave(t, s, c)
		n.version, n.creations = n.version+1, n.creations+2
		return sure
	}
	if !enter() {
		t.Error("alone it does not hold")
	}
	if _, err := conn.Create(n.path+"/"+exclusivePrefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if enter() {
		t.Error("it holds although another claim has come")
	}
}
