// Package zkstore is a connection to ZooKeeper by the client library, with what the
// library lacks: calls that end with their ctx, watches that several callers share, the
// negotiated session timeout, and how long the servers certainly keep the session.
//
// What a caller can rely on:
//
//   - Every call returns soon after its ctx has ended. The request itself may still be
//     sent and carried out; its outcome is reported to the caller of Start.
//   - A call of a [Session] is never carried out in a later ZooKeeper session of the same
//     connection, if it names a guard; without one, it is not begun there.
//   - [Session.ValidUntil] is a moment before which the servers do not expire the session.
//     Only writes that a majority has committed move it.
//   - [Session.Context] has ended, with every context made of it, before anyone else can
//     see that the session has ended, also where the process itself ends it.
//   - A [Watch] that was returned fires at the first change after the read that it was
//     returned with, and also when the TCP connection is replaced or the session ends.
//
// How it learns what the library does not tell: the library dials through an intercepting
// net.Conn, which reads the headers of requests and replies as they pass.
package zkstore
