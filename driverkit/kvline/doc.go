// Package kvline is an engine for stores that compare and swap values: a new engine is
// the store's part, see [Store], and nothing else.
//
// The line of a name is one value. A call that changes it reads it, changes it, and
// writes it back if no other write came between; otherwise it begins again. What an
// engine wrote last, or was told, it tries without a read: a free name is taken and
// given back in one round trip each. Whoever gives a lock back tells the engine whose
// turn has come, and sends it the line. Whoever begins to wait tells the engine of the
// only holder, which reads the line, so that it knows it when the lock is given back.
//
// Claims carry the time until which they live, by the store's clock. The time of a write
// is the store's own, so no client's clock is in it. Who reads a line in which a claim
// has expired writes it back without that claim; a write that prolonged the claim
// meanwhile makes that fail.
//
// A token is the revision of the write that entered the claim.
package kvline
