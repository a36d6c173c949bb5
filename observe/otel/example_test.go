package otelpawl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	otelpawl "github.com/pawl-go/pawl/observe/otel"
)

func ExampleNew() {
	// The program has set the global providers, by otel.SetTracerProvider and
	// otel.SetMeterProvider; without them nothing is recorded.
	observer, err := otelpawl.New(otelpawl.WithName())
	if err != nil {
		log.Fatal(err)
	}
	c := pawl.New(memlock.New(), pawl.WithObserver(observer))
	defer c.Close()

	ctx := context.Background() // in a server, the request's: its span is the parent
	lease, err := c.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", lease.Err() == nil)
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output: held: true
}
