package pawl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Open returns a client on the store at a URL, such as "sqlite:///var/lib/app.db"
// or "mem:". Engines register their schemes when they are imported, as in
// database/sql. Every URL takes ?ttl=, the default TTL of the client's locks.
// No error shows a password. Close closes the engine too.
func Open(ctx context.Context, store string, opts ...Option) (*Client, error) {
	if ctx == nil {
		panic("pawl: nil context")
	}
	u, err := parse(store)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	fail := func(err error) (*Client, error) {
		return nil, &Error{Op: "open", Name: redact(u), Engine: u.Scheme, Err: err}
	}
	opener, ok := driver.Lookup(u.Scheme)
	if !ok {
		return fail(fmt.Errorf("%w: unknown scheme %q, known are %s (an engine is known once its package is imported)",
			ErrInvalid, u.Scheme, strings.Join(driver.Schemes(), ", ")))
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
		err = invalid{err}
	}
	if err != nil {
		return fail(err)
	}
	c := newClient(engine, o)
	c.owned = true
	return c, nil
}

// invalid is an error that is ErrInvalid too, in its own words.
type invalid struct{ error }

func (i invalid) Unwrap() error        { return i.error }
func (i invalid) Is(target error) bool { return target == ErrInvalid }

// takeTTL takes the ttl parameter out of u, so that engines see only their own.
func takeTTL(u *url.URL) ([]Option, error) {
	q := u.Query()
	if !q.Has("ttl") {
		return nil, nil
	}
	d, err := time.ParseDuration(q.Get("ttl"))
	if err != nil {
		return nil, fmt.Errorf("%w: ttl=%q is not a duration", ErrInvalid, q.Get("ttl"))
	}
	q.Del("ttl")
	u.RawQuery = q.Encode()
	return []Option{WithTTL(d)}, nil
}

// parse parses a store's URL. The errors of package url repeat the whole URL with
// its password, so only their reason is kept.
func parse(store string) (*url.URL, error) {
	u, err := driver.ParseURL(store)
	if err != nil {
		reason := "malformed"
		if ue, ok := errors.AsType[*url.Error](err); ok && !strings.Contains(ue.Err.Error(), "\"") {
			reason = ue.Err.Error()
		}
		return nil, fmt.Errorf("%w: store URL: %s", ErrInvalid, reason)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%w: store URL: malformed parameters", ErrInvalid)
	}
	if u.Scheme == "" {
		return nil, fmt.Errorf("%w: store URL has no scheme, such as \"mem:\"", ErrInvalid)
	}
	return u, nil
}

// redact shows a URL without user, password and parameters, any of which may
// carry a secret.
func redact(u *url.URL) string {
	r := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}
	return r.String()
}
