// Package quorum makes one engine of several that know nothing of each other:
// a claim is held when a majority of the nodes holds it. On Redis this is
// Redlock, which package redlock opens.
//
// It does not promise exclusion to a holder that stops past its deadline, nor
// across a node whose clock is stepped; no lease lock does. It promises tokens
// that are unique and grow without any assumption about clocks, so that a
// resource which checks them is safe all the same.
//
// A name has a majority of its own, which is asked first, and all others a
// millisecond later if the claim still stands: a hold that lasts is at every node
// that answers, and survives the loss of any minority, while a short one costs no
// more nodes than it needs. Where the first have not decided it, the others are
// asked at once.
//
// # Why tokens are unique
//
// Every node counts. A claim asks the nodes, and each that grants it raises its
// count and answers with it. If a majority granted the same value, that is the
// token. Otherwise the largest is, once a majority has confirmed it: a node
// confirms a token, and raises its count to it, only while its grant to this
// claim (id, try and the value it answered) still stands. Two holders share a
// node, and there one of them came first: its token was in the count before the
// other's grant raised it. Readers hold beside each other, so for them a node
// confirms only a token above its count, and no two get the same.
//
// # Nodes that come back
//
// A node that has lost its data, or may have, does not vote (see driver.Voter).
// Once it has been silent for longer than any lease can live, any client lets it
// in again: it raises the epoch on so many of the others that every majority has
// one of them, copies the highest mark among them, and joins in the new epoch.
// Votes of different epochs are never combined, and a node confirms no grant of
// an earlier epoch, so an acquire that was under way across the loss fails.
//
// A store has one vote, whatever it is called: nodes say which store they are, and
// two that are one are refused.
//
// # What it cannot do
//
// There is no line: who waits is told of departures and asks again, so waiting
// is not first come first served. Semaphores are refused: two majorities may
// each count free units that the other has given away.
package quorum
