// Package pawl takes, keeps and gives back locks that several machines share,
// over the stores people already run.
//
// What it does not promise: a lock here is a lease. There is one holder at a time
// while holders stop working when their lease's context ends, clocks run at about
// the same rate and the store keeps its data. A process that was paused may go on
// for a moment believing that it holds the lock; that is harmless where the work
// checks the token of the lease, see [Lease.Token].
//
// What it does promise: the context of a lease ends before anybody else can hold
// the lock, found by the clock and not by the network; a release or renewal never
// affects a later grant; an acquire whose answer was lost leaves no orphan behind;
// two different names never block each other; first come is first served, to within
// one 20 ms turn of a process ([WithFair] makes it exact).
//
//	c := pawl.New(memlock.New())
//	defer c.Close()
//
//	lease, err := c.Mutex("orders/42").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//	return ship(lease.Context(), lease.Token())
//
// A [Client] has locks of three kinds, [Mutex], [RWMutex] and [Semaphore], and takes
// several names at once with [Client.LockAll]. All of them return a [Lease].
package pawl
