// Package doctor examines a store: are its settings, its rights and its state good for
// locks? An examination reads and measures, and changes nothing in the store.
//
// The examiners are in packages of their own beside the engines, such as
// redislock/redisdoctor, and register their schemes when they are imported.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// An Examiner examines the store of a URL. It changes nothing there. An error says that
// the store could not be examined at all; everything else is a finding. None of its
// errors and findings shows a password.
type Examiner func(ctx context.Context, u *url.URL) ([]Finding, error)

var (
	examinersMu sync.RWMutex // guards examiners
	examiners   = map[string]Examiner{}
)

// Register makes an examiner known by the scheme of its URLs. It is called from an init
// function, and panics if the scheme is taken.
func Register(scheme string, e Examiner) {
	examinersMu.Lock()
	defer examinersMu.Unlock()
	if e == nil || scheme == "" {
		panic("doctor: Register without a scheme or an examiner")
	}
	if _, taken := examiners[scheme]; taken {
		panic("doctor: Register called twice for scheme " + scheme)
	}
	examiners[scheme] = e
}

// Schemes returns the registered schemes in order.
func Schemes() []string {
	examinersMu.RLock()
	defer examinersMu.RUnlock()
	return slices.Sorted(maps.Keys(examiners))
}

// Examine examines the store at a URL, which it reads as pawl.Open does. Its errors
// show no password; errors.Is finds driver.ErrURL in those about the URL itself.
func Examine(ctx context.Context, store string) ([]Finding, error) {
	u, err := driver.ParseURL(store)
	if err != nil {
		return nil, fmt.Errorf("store URL: %w", err)
	}
	ttl, err := takeTTL(u)
	if err != nil {
		return nil, fmt.Errorf("store URL: %w", err)
	}
	ctx = context.WithValue(ctx, ttlKey{}, ttl)
	shown := driver.ShowURL(u)
	examine, err := lookup(u.Scheme, shown)
	if err != nil {
		return nil, err
	}
	found, err := examine(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", shown, errNothing)
	}
	return found, nil
}

// errNothing is for an examiner without findings: that must not pass for a good store.
var errNothing = errors.New("nothing was examined")

func lookup(scheme, shown string) (Examiner, error) {
	examinersMu.RLock()
	e, ok := examiners[scheme]
	examinersMu.RUnlock()
	if ok {
		return e, nil
	}
	known := strings.Join(Schemes(), ", ")
	if _, engine := driver.Lookup(scheme); engine {
		return nil, driver.BadURL("a %s: store has nothing to examine, stores that have are %s", scheme, known)
	}
	unknown := "unknown scheme"
	if word, _, _ := strings.Cut(shown, ":"); word != "" { // else it may be a user's name
		unknown += " " + strconv.Quote(word)
	}
	return nil, driver.BadURL("store URL: %s, known are %s", unknown, known)
}

type ttlKey struct{}

// The TTLs of those who name none.
const (
	LibraryTTL = 10 * time.Second // of pawl.Open
	RunTTL     = 30 * time.Second // of pawl run
)

// TTL returns the ttl parameter of the URL that is examined, or other if it has none.
// Examiners find it only here.
func TTL(ctx context.Context, other time.Duration) time.Duration {
	ttl, _ := ctx.Value(ttlKey{}).(time.Duration)
	return cmp.Or(ttl, other)
}

// takeTTL takes the ttl parameter out of u, which is for the core: examiners see only
// those of their engine. It returns 0 if there is none.
func takeTTL(u *url.URL) (ttl time.Duration, err error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil { // its text repeats the parameter
		return 0, driver.BadURL("malformed parameters: write %%25 for %% and %%3B for ;")
	}
	if !q.Has("ttl") {
		return 0, nil
	}
	if ttl, err = time.ParseDuration(q.Get("ttl")); err != nil {
		return 0, driver.BadURL("ttl is not a duration, such as 30s")
	}
	q.Del("ttl")
	u.RawQuery = q.Encode()
	return ttl, nil
}
