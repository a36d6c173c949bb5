// Command orders is an order service that receives every order twice, as one does
// whose clients try again after a timeout. Each order is charged once: over HTTP, by
// a service that is not in the same store, and in a ledger that is.
//
//	go run ./examples/orders
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
	"github.com/pawl-go/pawl/once/httponce"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if err := chargeTwice(ctx, 20); err != nil {
		return err
	}
	return bookTwice(ctx, 20)
}

// chargeTwice sends every order twice to a service that charges.
func chargeTwice(ctx context.Context, orders int) error {
	c := pawl.New(memlock.New()) // pawl.Open(ctx, "redis://…") in a service of several processes
	defer c.Close()

	var charged atomic.Int64
	charge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "receipt %d", charged.Add(1))
	})
	// WithHold: after a crash in the middle of a charge the order is not charged again
	// until an operator has decided.
	service := httptest.NewServer(httponce.Handler(c, charge,
		httponce.WithRequiredKey(), httponce.WithOnceOptions(once.WithHold(), once.WithKeep(24*time.Hour))))
	defer service.Close()

	receipts := make([][2]string, orders)
	errs := make(chan error, 2*orders)
	var all sync.WaitGroup
	for i := range 2 * orders {
		all.Go(func() {
			receipt, err := send(ctx, service.URL, i/2)
			receipts[i/2][i%2] = receipt
			errs <- err
		})
	}
	all.Wait()
	for range 2 * orders {
		if err := <-errs; err != nil {
			return err
		}
	}
	for i, r := range receipts {
		if r[0] != r[1] {
			return fmt.Errorf("order %d was charged twice: %q and %q", i, r[0], r[1])
		}
	}
	fmt.Printf("%d requests, %d orders, %d charges\n", 2*orders, orders, charged.Load())
	return nil
}

// send sends an order, and again while the first is being served.
func send(ctx context.Context, url string, n int) (string, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprintf("order %d", n)))
		if err != nil {
			return "", err
		}
		req.Header.Set(httponce.Header, fmt.Sprintf("order-%d", n))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		switch {
		case err != nil:
			return "", err
		case res.StatusCode == http.StatusCreated:
			return string(body), nil
		case res.StatusCode != http.StatusConflict:
			return "", fmt.Errorf("order %d: %s: %s", n, res.Status, body)
		}
		select {
		case <-time.After(5 * time.Millisecond): // Retry-After says a second; an example does not have one
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
