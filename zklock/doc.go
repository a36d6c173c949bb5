// Package zklock keeps lines of claims in ZooKeeper.
//
// It does not promise that a holder still holds when its work takes effect: a process may
// stall past its deadline on any store. The token on every grant, checked where the work
// has its effect, is what carries an application past that. Nor does it promise anything
// while a majority of the servers is away: holds then end at their deadlines, one after the
// other.
//
// # Nodes
//
// A name is a container node, and a claim an ephemeral sequential child of it:
//
//	/pawl/lines/orders%2F42/p.x.5f0c9a315d77e0b1.0000000017      takes the name whole
//	/pawl/lines/orders%2F42/p.s.2.5.c84410fe02b9a6d3.0000000018  takes 2 of 5
//
// The child's name says all that [driver.Place] asks, so that one read of the children is
// the line. Its data says whose claim it is. The zxid that created it is its order in the
// line and its token. The sequence number is in the same order until it runs out at 2^31,
// and is used only that long. The tag before it makes the path unique for ever: the servers
// remove an empty container, and the numbers of the next one start again.
//
// # Entering
//
// One Multi creates the child and writes the container. The reply to the second operation
// has the number of children and the zxid of the Multi: a child that is alone holds, with
// that zxid as its token. On a busy name the session reads the line and watches what blocks
// the claim: one other claim, or as many of the nearest as leave it no room, see group.go.
// Leaving from an exclusive hold that was waited for writes the child before it deletes it,
// in one Multi: the waiter that watches it is told "changed" and not "deleted", and so knows
// without a request that every claim ahead is gone.
//
// # Liveness
//
// A claim lives as long as the ZooKeeper session that created it. The client library pings
// by itself, and a server that is cut off from its leader goes on answering pings and reads.
// So only a committed write counts: Beat is one, and only Beat prolongs. What it promises is
// counted from the last moment at which the leader has certainly heard of the session, see
// package zkstore. A session that is not beaten is ended by the engine itself after its TTL.
package zklock
