package testserver

import (
	"testing"
)

func TestAnEtcdClusterElectsAnotherLeader(t *testing.T) {
	t.Parallel()
	c := NewEtcds(t, 3, nil)
	first := c.Leader()
	c.Members[first].Kill()
	others := make([]int, 0, 2)
	for i := range c.Members {
		if i != first {
			others = append(others, i)
		}
	}
	if second := c.Leader(others...); second == first {
		t.Errorf("member %d leads, which was killed", second)
	}
	c.Members[first].Restart()
	c.Await()
}

func TestEtcdMembersSpeakThroughTheNetworkOfTheTest(t *testing.T) {
	t.Parallel()
	asked := make(chan [2]int, 6)
	c := NewEtcds(t, 3, func(from, to int, addr string) string {
		asked <- [2]int{from, to}
		return addr
	})
	if len(asked) != 6 {
		t.Errorf("%d ways between 3 members, not 6", len(asked))
	}
	c.Leader()
}
