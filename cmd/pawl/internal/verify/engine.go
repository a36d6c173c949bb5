package verify

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/cmd/pawl/internal/planted"
	"github.com/pawl-go/pawl/driver"
)

// openEngine opens the engine of a URL, or that of a self-test.
func openEngine(ctx context.Context, store, address string) (driver.Engine, error) {
	if address != "" {
		return planted.Connect(ctx, address)
	}
	u, err := driver.ParseURL(store)
	if err != nil {
		return nil, err
	}
	open, known := driver.Lookup(u.Scheme)
	if !known {
		return nil, fmt.Errorf("unknown scheme")
	}
	q := u.Query()
	q.Del("ttl") // it is pawl's own
	u.RawQuery = q.Encode()
	return open(ctx, u)
}
