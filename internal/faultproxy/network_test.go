package faultproxy

import "testing"

func TestAnIsolatedMemberIsSilentToAllOthersUntilHealed(t *testing.T) {
	t.Parallel()
	n := NewNetwork(t)
	ways, clients := map[[2]int]*Proxy{}, map[[2]int]*client{}
	server := newLineServer(t)
	for _, pair := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {0, 2}, {2, 0}} {
		n.Reach(pair[0], pair[1], server.addr)
		ways[pair] = n.ways[pair][0]
		clients[pair] = dial(t, ways[pair])
		clients[pair].send("before")
		clients[pair].expect("before!")
		receive(t, server.lines)
	}
	n.Isolate(1)
	for pair, c := range clients {
		c.send("during")
		if pair == [2]int{0, 2} || pair == [2]int{2, 0} {
			c.expect("during!")
			receive(t, server.lines)
		}
	}
	expectNothing(t, server.lines)
	n.Heal()
	for pair, way := range ways {
		clients[pair].expectReset()
		c := dial(t, way)
		c.send("after")
		c.expect("after!")
	}
}
