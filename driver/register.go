package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
)

// An Opener makes an engine of a store's URL. It answers one that makes no sense
// with BadURL, an unknown parameter with one that lists the known ones, and no
// error of it shows a password.
type Opener func(ctx context.Context, u *url.URL) (Engine, error)

// ErrURL is what an error of BadURL is.
var ErrURL = errors.New("bad store URL")

// BadURL returns the error of an Opener that can make no sense of a URL. Its
// text is the reason alone, and must not repeat what may be a password.
func BadURL(format string, args ...any) error { return &badURL{fmt.Sprintf(format, args...)} }

type badURL struct{ reason string }

func (b *badURL) Error() string        { return b.reason }
func (b *badURL) Is(target error) bool { return target == ErrURL }

var (
	openersMu sync.RWMutex // guards openers
	openers   = map[string]Opener{}
)

// Register makes an engine known by the scheme of its URLs, from an init
// function. It panics if the scheme is taken. The opener is given only URLs that
// ParseURL takes.
func Register(scheme string, o Opener) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if o == nil || scheme == "" {
		panic("driver: Register without a scheme or an opener")
	}
	if _, taken := openers[scheme]; taken {
		panic("driver: Register called twice for scheme " + scheme)
	}
	openers[scheme] = func(ctx context.Context, u *url.URL) (Engine, error) {
		if reason := misread(u); reason != "" { // ParseURL has refused it, if it was asked
			return nil, BadURL("%s", reason)
		}
		return o(ctx, u)
	}
}

// Lookup returns the opener registered for scheme.
func Lookup(scheme string) (o Opener, ok bool) {
	openersMu.RLock()
	defer openersMu.RUnlock()
	o, ok = openers[scheme]
	return o, ok
}

// Schemes returns the registered schemes in order.
func Schemes() []string {
	openersMu.RLock()
	defer openersMu.RUnlock()
	names := make([]string, 0, len(openers))
	for s := range openers {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}
