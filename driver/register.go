package driver

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"sync"
)

// An Opener opens an engine on the store of a URL. It returns a BadURL for one that
// makes no sense; for an unknown parameter the error lists the known ones. None of its
// errors shows a password.
type Opener func(ctx context.Context, u *url.URL) (Engine, error)

var (
	openersMu sync.RWMutex // guards openers
	openers   = map[string]Opener{}
)

// Register makes an engine known by the scheme of its URLs. It is called from an init
// function, and panics if the scheme is taken. The opener is called only with URLs that
// ParseURL accepts.
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
		if reason := ambiguity(u); reason != "" { // the caller may have parsed it otherwise than by ParseURL
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
	return slices.Sorted(maps.Keys(openers))
}
