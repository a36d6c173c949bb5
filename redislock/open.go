package redislock

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// Scripts says whether an engine may use scripts.
type Scripts int

// What there is to say about scripts.
const (
	ScriptsIfAllowed Scripts = iota // ask the server, and do without where it says no
	ScriptsAlways
	ScriptsNever // as WithoutScripts
)

// Open is [New] with the server asked first: whether it runs scripts, and whether
// it may evict keys. It is for adapters that open URLs.
func Open(ctx context.Context, c Client, s Scripts, opts ...Option) (driver.Engine, error) {
	var refused error
	if s == ScriptsIfAllowed {
		if refused = tryScript(ctx, c); refused != nil && !errors.Is(refused, driver.ErrDenied) && !errors.Is(refused, driver.ErrUnsupported) {
			return nil, refused
		}
	}
	if s == ScriptsNever || refused != nil {
		opts = append(opts, WithoutScripts())
	}
	var err error
	e := New(c, opts...)
	switch e := e.(type) {
	case *Engine:
		err = e.ready(ctx)
	case *bare:
		if _, err = e.ready(ctx); refused != nil && err != nil {
			err = fmt.Errorf("%w (and: %w)", refused, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// tryScript says why the server runs no scripts: ErrDenied or ErrUnsupported; any
// other error is none of the script's.
func tryScript(ctx context.Context, c Client) error {
	_, err := c.Do(ctx, "", []string{"EVAL", "return 1", "0"})
	if code(err) == "ERR" {
		return fmt.Errorf("redislock: %w: the server runs no scripts: %w", driver.ErrUnsupported, err)
	}
	return fault(err)
}

// Fault wraps an error of a [Client] in the sentinel of package driver that says
// what a caller may do. It is for adapters.
func Fault(err error) error { return fault(err) }
