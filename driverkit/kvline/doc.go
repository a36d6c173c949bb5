// Package kvline is an engine for stores that compare and swap values: a new engine is
// the store's part, see [Store], and nothing else.
//
// The line of a name is one value. A call that changes it reads it, changes it, and
// writes it back if no other write came between; otherwise it begins again. What an
// engine wrote last, or was told, it tries without a read: a free name is taken and
// given back in one round trip each. Whoever gives a lock back tells the engine whose
// turn has come, and sends it the line: with the write itself, if the store is a [Teller],
// and a turn then takes one round trip. Whoever begins to wait tells the engine of the
// only holder, which reads the line, so that it knows it when the lock is given back.
//
// Of all writes on one revision one succeeds. So who comes to a long line, or has tried in
// vain, asks an engine that is in the line to enter its claim with its own next write; if
// that takes too long, it does it itself.
//
// A session is a value too, and its claims live for its TTL after the last write of it. The
// time of a write is the store's own, so no client's clock is in it. A beat writes that
// value alone, and a line changes only when somebody enters, leaves or is granted. Who
// waits reads the values of the sessions at the front of the line when they may have
// expired, deletes them if so, and then writes the line without their claims; a beat that
// came meanwhile makes the deletion fail, and one that comes later fails.
//
// A token is the revision of the write that entered the claim.
package kvline
