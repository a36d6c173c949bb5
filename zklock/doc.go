// Package zklock keeps lines of claims in ZooKeeper.
//
// It does not promise that a holder which was told it holds still holds when its
// work takes effect: a process may stall past its deadline on any store. The
// token on every grant, checked where the work has its effect, is what carries
// an application past that. Nor does it promise anything while a majority of the
// servers is away: holds then end at their deadlines, one after the other.
//
// # Nodes
//
// A name is a container node, and a claim an ephemeral sequential child of it:
//
//	/pawl/lines/orders%2F42/p.x.5f0c9a315d77e0b1.0000000017      takes the name whole
//	/pawl/lines/orders%2F42/p.s.2.5.c84410fe02b9a6d3.0000000018  takes 2 of 5
//
// The child's name says all that [driver.Place] asks, so that one read of the
// children is the line. Its data says whose claim it is. Its order in the line,
// and its token, is the zxid that created it. The sequence number is in the same
// order until it runs out at 2^31, and is used only as long. The mark before it
// makes the path one that no other node ever has: a container that is empty is
// removed, and the numbers of the next begin again.
//
// # Entering
//
// One Multi creates the child and writes the container. The answer to the second
// half tells how many children there are and the zxid of the whole: if there is
// one child, it is ours, and holds, with that zxid as its token. On a busy name it
// reads the line, and watches who is in its way: one, or as many of the nearest as
// leave it no room, see sum.go.
// Leaving from
// an exclusive hold that was waited for writes the child before it deletes it, in
// one Multi: whoever watches it is told "changed" and not "deleted", and so knows
// without a question that everybody ahead is gone.
//
// # Life
//
// A claim lives as long as the ZooKeeper session that made it; here that session
// is called a life, and a session is pawl's. The client library pings by itself,
// and a server that is cut off from its leader goes on answering pings and reads.
// So nothing is believed but a write that was committed: Beat is one, and is the
// only thing that prolongs. What it promises is counted from the last moment at
// which the leader has certainly heard of the life, see life.go. A session that
// nobody beats is ended by the engine itself after its TTL.
package zklock
