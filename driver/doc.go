// Package driver is the contract between pawl and the stores it locks in.
//
// No lease lock can promise exclusion unconditionally, and this one does not:
// there is one holder at a time only while holders stop before their deadline,
// clocks run at about the same rate and the store keeps its data. Beyond that
// limit, an application is protected by the token of every grant, if it checks
// the token where the work takes effect.
//
// # The idea
//
// The session decides how long claims live. The line decides their order. Whether
// a claim is held follows from the line alone.
//
// A name has a line of claims in order of arrival. A claim needs Need of the
// name's Limit units. It is held if it and all claims ahead of it fit into the
// limit. A mutex is 1 of 1, a semaphore k of n, a reader 1 of [All], a writer
// All of All. [Place] is that rule; what an engine computes
// itself is compared with it.
//
// # The laws
//
// Each law has cases in package drivertest, which print it when an engine breaks it.
//
//  1. Same ID and Try, same answer: a repeated Enter returns the same standing
//     and token and prolongs as the first one did; a repeated Leave changes
//     nothing.
//  2. [Place] decides who holds; claims that do not queue come last. An engine
//     that implements the rule again in its store's own language is compared
//     with Place on random histories. A dead client's place in line ends at its
//     expiry for everyone, including claims that do not queue.
//  3. Tokens are unique. Tokens of exclusive claims grow in the order of
//     holding; those of shared and counted claims are ordered against exclusive
//     ones. Re-entry and renewal keep the token.
//  4. Granting never shortens a claim's expiry, so that a deadline stays true
//     once it is computed. There is no window in which a grant must be
//     confirmed.
//  5. A claim that does not queue and is not held leaves no trace. A name with
//     an empty line leaves nothing behind that grows for ever.
//  6. A missed notice costs at most Pause. An engine that declares Push must
//     not need Pause for an ordinary handoff.
//  7. Leave wakes exactly the waiters whose turn has come.
//  8. Only the engine's clock decides expiry: clients send durations, never
//     their own wall clock.
//  9. An engine repeats a request only if the store refused it without carrying
//     it out, never if the outcome is unknown: that is for the core. Its
//     goroutines belong to an engine or a session whose Close ends them and
//     waits for them; there is none per held claim. It does not log.
//  10. Errors are returned as they are, wrapped at most in the sentinels of this
//     package. An outcome that the engine did not learn is reported as unknown,
//     never guessed.
//  11. Claims that cannot share a line are refused: [ErrLimit] if the limits of
//     shared claims differ; exclusive claims exclude each other whatever their
//     Limit. A key that holds something else is reported with a clear error and
//     left alone.
//  12. What an engine cannot do right it refuses with [ErrUnsupported], and
//     never approximates.
//  13. Two different names never block each other ("a", "a/b", "A", "a ",
//     "a:line"): names are encoded, not interpreted, and what an engine stores
//     beside a name cannot collide with another name.
//  14. Ending a claim, a session or an engine never ends a later one, nor a
//     later Try of the same claim.
//  15. Beat never creates or revives a claim. It answers for each claim
//     separately: one that cannot be prolonged now does not affect the others.
//
// # What an engine may rely on
//
// The core generates a claim's ID (32 characters of [0-9a-f]) before the first
// call and never uses it for another claim. It has validated names: 1 to 255 bytes
// of valid UTF-8 without control characters. 1 <= Need <= Limit <= All. Notes
// are at most [MaxNote] bytes of valid UTF-8. Calls on a session may be
// concurrent, but for one claim at most one Enter or Await runs at a time. The core
// beats every open session, even one without claims, unless it belongs to a lease
// without renewal. TTLs are whole microseconds and at least a millisecond.
// An engine must return from every call soon after its ctx has ended.
package driver
