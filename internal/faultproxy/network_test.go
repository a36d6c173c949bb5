package faultproxy

import (
	"testing"

	"github.com/pawl-go/pawl/internal/conntest"
)

func TestAnIsolatedMemberIsSilentToAllOthersUntilHealed(t *testing.T) {
	t.Parallel()
	n := NewNetwork(t)
	ways, clients := map[[2]int]*Proxy{}, map[[2]int]*client{}
	server := conntest.NewLineServer(t)
	for _, pair := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {0, 2}, {2, 0}} {
		n.Reach(pair[0], pair[1], server.Addr)
		ways[pair] = n.ways[pair][0]
		clients[pair] = dial(t, ways[pair])
		clients[pair].send("before")
		clients[pair].expect("before!")
		conntest.Receive(t, server.Lines)
	}
	n.Isolate(1)
	for pair, c := range clients {
		c.send("during")
		if pair == [2]int{0, 2} || pair == [2]int{2, 0} {
			c.expect("during!")
			conntest.Receive(t, server.Lines)
		}
	}
	conntest.ExpectNothing(t, server.Lines)
	n.Heal()
	for pair, way := range ways {
		clients[pair].expectReset()
		c := dial(t, way)
		c.send("after")
		c.expect("after!")
	}
}
