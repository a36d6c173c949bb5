// Command crowd fills a store for a test: it holds names, waits for each of them too,
// says "ready", and ends with its standard input.
//
//	crowd URL NAMES
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/redislock/rueidis"
)

const ttl = 10 * time.Minute // so that a test is not disturbed by beats

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: crowd URL NAMES")
	}
	names, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if err := fill(os.Args[1], names); err != nil {
		log.Fatal(err)
	}
}

// fill returns when standard input ends. The claims end with the process, and the
// store with the test.
func fill(url string, names int) error {
	var waiting atomic.Int64
	ready := make(chan struct{})
	told := pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting && waiting.Add(1) == int64(names) {
			close(ready)
		}
	})
	ctx := context.Background()
	holder, err := pawl.Open(ctx, url, pawl.WithTTL(ttl), pawl.WithNote("ana@ci-7 pid 4121 work.sh"))
	if err != nil {
		return err
	}
	waiter, err := pawl.Open(ctx, url, pawl.WithTTL(ttl), pawl.WithNote("ben@ci-8 pid 812 work.sh"), pawl.WithObserver(told))
	if err != nil {
		return err
	}
	const atATime = 200
	var group sync.WaitGroup
	for from := range atATime {
		group.Go(func() {
			for i := from; i < names; i += atATime {
				name := fmt.Sprintf("orders/%05d", i)
				if _, err := holder.Mutex(name).Lock(ctx); err != nil {
					log.Fatal(err)
				}
				go func() { _, _ = waiter.Mutex(name).Lock(ctx) }() // ends with the process
			}
		})
	}
	group.Wait()
	<-ready
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
