package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// A lock is taken, worked under and given back. The lease's context ends if the
// lock is lost, and its token tells a later holder from an earlier one.
func Example() {
	ctx := context.Background()
	c := pawl.New(memlock.New(), pawl.WithTTL(10*time.Second))
	defer c.Close()

	lease, err := c.Mutex("orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock()

	ship := func(ctx context.Context, token uint64) { fmt.Println("shipped:", ctx.Err() == nil && token > 0) }
	ship(lease.Context(), lease.Token())
	// Output: shipped: true
}

func ExampleOpen() {
	c, err := pawl.Open(context.Background(), "mem:?ttl=5s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = pawl.Open(context.Background(), "gopher://host")
	fmt.Println(errors.Is(err, pawl.ErrInvalid))
	// Output: true
}

// TryLock does not wait, and says who holds the lock.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	engine := memlock.New()
	ana, bob := pawl.New(engine, pawl.WithNote("ana@ci-7")), pawl.New(engine)
	defer ana.Close()
	defer bob.Close()

	lease, _ := ana.Mutex("deploy").Lock(ctx)
	_, err := bob.Mutex("deploy").TryLock(ctx)
	if held, ok := errors.AsType[*pawl.HeldError](err); ok {
		fmt.Println(errors.Is(err, pawl.ErrHeld), held.Holder.Note)
	}
	_ = lease.Unlock()

	_, err = bob.Mutex("deploy").TryLock(ctx)
	fmt.Println(err)
	// Output:
	// true ana@ci-7
	// <nil>
}

// Do runs a function under the lock; its context ends on loss.
func ExampleMutex_Do() {
	c := pawl.New(memlock.New())
	defer c.Close()
	err := c.Mutex("report").Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("working on", lease.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// working on report
	// <nil>
}

func ExampleRWMutex() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()
	rw := c.RWMutex("catalogue")

	one, _ := rw.RLock(ctx)
	two, _ := rw.RLock(ctx)
	_, err := rw.TryLock(ctx)
	fmt.Println(errors.Is(err, pawl.ErrHeld))
	_ = one.Unlock()
	_ = two.Unlock()

	w, err := rw.TryLock(ctx)
	fmt.Println(err)
	_ = w.Unlock()
	// Output:
	// true
	// <nil>
}

func ExampleSemaphore() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()
	gpus := c.Semaphore("gpu", 4)

	three, _ := gpus.Acquire(ctx, 3)
	_, err := gpus.TryAcquire(ctx, 2)
	fmt.Println(errors.Is(err, pawl.ErrHeld))
	_ = three.Unlock()
	// Output: true
}

// The locks a store holds can be listed, and one of them broken.
func ExampleClient_List() {
	ctx := context.Background()
	c := pawl.New(memlock.New(), pawl.WithNote("ana@ci-7"))
	defer c.Close()
	lease, _ := c.Mutex("orders/42").Lock(ctx)

	for e, err := range c.List(ctx, "orders/") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Name, e.Held, e.Note)
		if err := c.Evict(ctx, e); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(errors.Is(lease.Unlock(), pawl.ErrLost))
	// Output:
	// orders/42 true ana@ci-7
	// true
}

func ExampleClient_LockAll() {
	c := pawl.New(memlock.New())
	defer c.Close()
	lease, err := c.LockAll(context.Background(), []string{"account/7", "account/3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Names(), lease.Part("account/7").Token() > 0) // each name has a token of its own
	_ = lease.Unlock()
	// Output: [account/3 account/7] true
}

// Confirm is for a step that cannot be undone, on a resource that cannot check a token.
func ExampleLease_Confirm() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()
	err := c.Mutex("payouts").Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
		if err := lease.Confirm(ctx); err != nil {
			return err // nothing was sent
		}
		fmt.Println("sent")
		return nil
	})
	fmt.Println(err)
	// Output:
	// sent
	// <nil>
}

func ExampleClient_Stats() {
	ctx := context.Background()
	c := pawl.New(memlock.New())
	defer c.Close()
	lease, _ := c.Mutex("a").Lock(ctx)
	st := c.Stats()
	fmt.Println(st.Acquired, st.Held)
	_ = lease.Unlock()
	// Output: 1 1
}

func ExampleWithObserver() {
	ctx := context.Background()
	c := pawl.New(memlock.New(), pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		fmt.Println(e.Kind, e.Name, e.Mode)
	})))
	defer c.Close()
	_ = c.RWMutex("catalogue").RDo(ctx, func(context.Context, *pawl.Lease) error { return nil })
	// Output:
	// acquired catalogue shared
	// released catalogue shared
}
