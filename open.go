package pawl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Open returns a client on the store at a URL, such as "sqlite:///var/lib/app.db"
// or "mem:". Engines register their schemes when they are imported, as in
// database/sql. Every URL takes ?ttl=, the default TTL of the client's locks.
// If driver.WithDialer has put a dialer into ctx, it makes every connection to the store,
// also after Open. No error shows a password. Close closes the engine too.
func Open(ctx context.Context, store string, opts ...Option) (*Client, error) {
	requireContext(ctx)
	u, err := parse(store)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	shown := driver.ShowURL(u)
	scheme, _, _ := strings.Cut(shown, ":") // "" if it may be a user's name
	fail := func(err error) (*Client, error) {
		return nil, &Error{Op: "open", Name: shown, Engine: scheme, Err: err}
	}
	opener, ok := driver.Lookup(u.Scheme)
	if !ok {
		unknown := "unknown scheme"
		if scheme != "" {
			unknown += " " + strconv.Quote(scheme)
		}
		return fail(fmt.Errorf("%w: %s, known are %s (an engine is known once its package is imported)",
			ErrInvalid, unknown, strings.Join(driver.Schemes(), ", ")))
	}
	ttl, err := takeTTL(u)
	if err != nil {
		return fail(err)
	}
	o := defaults().with(append(ttl, opts...))
	if o.err != nil {
		return fail(o.err)
	}
	engine, err := opener(ctx, u)
	if errors.Is(err, driver.ErrURL) {
		err = worded{driver.Join(ErrInvalid, err), err.Error()}
	}
	if err != nil {
		return fail(err)
	}
	c := newClient(engine, o)
	c.owned = true
	return c, nil
}

// takeTTL takes the ttl parameter out of u, so that engines see only their own.
func takeTTL(u *url.URL) ([]Option, error) {
	q := u.Query()
	if !q.Has("ttl") {
		return nil, nil
	}
	d, err := time.ParseDuration(q.Get("ttl"))
	if err != nil {
		return nil, fmt.Errorf("%w: ttl is not a duration, such as 30s", ErrInvalid)
	}
	q.Del("ttl")
	u.RawQuery = q.Encode()
	return []Option{WithTTL(d)}, nil
}

// parse parses a store's URL.
func parse(store string) (*url.URL, error) {
	u, err := driver.ParseURL(store)
	if err != nil {
		return nil, fmt.Errorf("%w: store URL: %w", ErrInvalid, err)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%w: store URL: malformed parameters: write %%25 for %% and %%3B for ;", ErrInvalid)
	}
	return u, nil
}
