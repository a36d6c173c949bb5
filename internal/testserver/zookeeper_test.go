package testserver

import (
	"testing"
)

func TestAnEnsembleElectsAnotherLeader(t *testing.T) {
	t.Parallel()
	if _, _, err := zooKeeper().locate(); err != nil {
		t.Skipf("optional server: %v", err)
	}
	e := ZooKeepers(t, 3, nil)
	first := e.Leader()
	e.Nodes[first].Kill()
	second := e.Leader((first+1)%3, (first+2)%3)
	if second == first {
		t.Fatalf("node %d was killed and leads", first)
	}
	e.Nodes[first].Restart()
	e.Await()
	if leader := e.Leader(); leader != second {
		t.Errorf("node %d leads after %d came back, %d led before", leader, first, second)
	}
}
