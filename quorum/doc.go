// Package quorum makes one engine of several independent ones: a claim is held when a
// majority of the nodes holds it. On Redis this is Redlock, which package redlock opens.
//
// It does not promise exclusion to a holder that is paused past its deadline, nor
// across a node whose clock is stepped; no lease lock does. It promises tokens that are
// unique and grow without any assumption about clocks, so that a resource which checks
// them is safe even then.
//
// Each name has a majority of its own that is asked first. The other nodes are asked a
// millisecond later if the claim is still held, or at once if the first nodes did not
// decide it. So a claim that is held for longer is at every node that answers, and
// survives the loss of any minority, while a shorter one costs no more nodes than it needs.
//
// # Why tokens are unique
//
// Every node has a mark, the highest token that it knows. A node that grants a claim
// raises its mark and answers with it. If a majority granted the same token, that is
// the claim's token. Otherwise it is the highest one granted, once a majority has
// confirmed it: a node confirms a token, and raises its mark to it, only while its grant
// to this claim (ID, Try and granted token) still stands. Two holders have a node in
// common, and that node served one of them first: its mark had reached the first
// token before it granted to the second holder. Readers hold at the same time, so for
// them a node confirms only a token above its mark, and no two readers get the same.
//
// # Nodes that lose their data
//
// A node that has lost its data, or may have, does not vote (see driver.Voter). After it
// has been silent for longer than any lease can last, any client lets it vote again:
// the client raises the epoch on enough other nodes that every majority contains one
// of them, reads the highest mark among them, and lets the node vote with this mark in
// the new epoch. Votes of different epochs are never combined, and a node confirms no
// grant of an earlier epoch, so an acquire that was in flight across the loss fails.
//
// A store has one vote under all its addresses: nodes report which store they are, and
// two nodes that are the same store are refused.
//
// # What it cannot do
//
// There is no line of a majority: waiters stand in the line of the name's first node, which
// tells them when to ask for votes, and who does not wait may be faster. So waiting is not
// first come first served. Semaphores are refused: two majorities could each count
// units as free that the other has granted.
package quorum
