// Command leader has three workers of which one leads. When it goes, the next in
// line leads, and an observer sees the changes.
//
//	go run ./examples/leader
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/memlock"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store := memlock.New() // the store that the workers share
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watcher := pawl.New(store)
	defer watcher.Close()
	seen := make(chan string, 100)
	var all sync.WaitGroup
	all.Go(func() {
		for l, err := range election.New(watcher, "scheduler").Observe(ctx) {
			if err == nil && !l.Vacant() {
				seen <- l.Value
			}
		}
	})
	errs := make(chan error, 3)
	for n := range 3 {
		all.Go(func() { errs <- work(ctx, store, fmt.Sprintf("worker-%d", n), seen) })
	}
	for range 3 {
		if err := <-errs; err != nil {
			return err
		}
	}
	stop()
	all.Wait()
	fmt.Println("3 workers led, one at a time")
	return nil
}

// work leads until the observer has seen it. A real one works until the context of
// its leadership ends, and then stands for election again.
func work(ctx context.Context, store *memlock.Engine, name string, seen <-chan string) error {
	c := pawl.New(store)
	defer c.Close()
	leadership, err := election.New(c, "scheduler").Campaign(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = leadership.Resign() }() // it ends with its lease at the latest
	select {
	case leader := <-seen:
		if leader != name {
			return fmt.Errorf("%s leads, and %s is seen", name, leader)
		}
	case <-leadership.Context().Done():
		return context.Cause(leadership.Context())
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
