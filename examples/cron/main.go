// Command cron is a nightly job that three machines start at the same minute. One of
// them runs it; the others find that it was done.
//
//	go run ./examples/cron
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store := memlock.New() // the store that the machines share
	var runs atomic.Int64
	errs := make(chan error, 3)
	var machines sync.WaitGroup
	for range 3 {
		machines.Go(func() {
			c := pawl.New(store)
			defer c.Close()
			// The key names the night, so that the next night runs again.
			rows, err := once.Do(ctx, c, "report/2026-11-15", func(context.Context) (int, error) {
				runs.Add(1)
				return 1234, nil
			}, once.WithKeep(48*time.Hour))
			if err == nil && rows != 1234 {
				err = fmt.Errorf("a machine has %d rows", rows)
			}
			errs <- err
		})
	}
	machines.Wait()
	for range 3 {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Printf("3 machines, %d run\n", runs.Load())
	return nil
}
