package drivertest

// laws are the laws of package driver, by number. A test compares them with its
// package comment.
var laws = [...]string{
	1:  "Same ID and Try, same answer: a repeated Enter returns the same standing and token and prolongs as the first did; a repeated Leave does nothing more.",
	2:  "[Place] decides, claims that do not queue come last. Rules written again in a store's own language are compared with it on random histories. A dead place ends at its expiry for everyone, also for those who only try.",
	3:  "Tokens are unique; for exclusive claims they grow in the order of holding; shared and counted claims are ordered against exclusive ones. Re-entry and renewal do not change them.",
	4:  "Granting never shortens a claim's expiry, so that a deadline once computed stays true. There are no confirm windows.",
	5:  "No Queue, no trace. A name with nobody in line leaves nothing behind that grows for ever.",
	6:  "A missed notice costs at most Pause; an engine that declares Push must not need Pause for an ordinary handoff.",
	7:  "Leave wakes exactly those whose turn has come.",
	8:  "Expiry is judged by the engine's clock alone; only durations are sent for it, never a client's wall clock.",
	9:  "An engine repeats a request only where the store refused it untouched, never one whose outcome is unknown: the core does that. Its goroutines belong to an engine or a session whose Close ends and awaits them; none per held claim. It does not log.",
	10: "Raw errors out, wrapped at most in the sentinels of this package; an outcome that was not learnt is said to be unknown, never guessed.",
	11: "Claims that cannot share a line are refused: [ErrLimit] when the limits of shared claims differ; exclusive claims exclude each other whatever their Limit. A key that holds something else: a clear error, and it is left alone.",
	12: "What cannot be done right is refused with [ErrUnsupported], never approximated.",
	13: "Two different names never block each other (\"a\", \"a/b\", \"A\", \"a \", \"a:line\"): names are encoded, not interpreted, and what an engine stores beside a name cannot collide with another name.",
	14: "Ending a claim, a session or an engine never ends a later one, nor a later Try of the same.",
	15: "Beat never creates or revives; it answers for each claim alone: one that cannot be prolonged now does not cost the others theirs.",
}
