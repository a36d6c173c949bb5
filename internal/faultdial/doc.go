// Package faultdial makes faults of the network inside a process: its [Link] is a
// driver.Dialer, and every connection that was dialled through it, old and new, has the
// faults that the Link was told to make. So they also reach connections to servers that
// the store itself announces, where a proxy in front of one address does not.
//
// A fault never drops or reorders single bytes of a connection that lives on, because TCP
// never shows that to a program: a connection that has lost bytes is silent from then on,
// and is reset when the Link is healed.
//
// Without a fault, a Read or Write is that of the connection itself. With one, two
// goroutines of the connection read and write on the caller's behalf, and the bytes wait
// in queues; the connection returns to the direct way when no fault is left and the queues
// are empty.
//
// What differs from a real network: the kernel still acknowledges what the server sends
// into a cut, so the server notices the cut only by missing requests and replies.
package faultdial
