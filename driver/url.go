package driver

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// ErrURL is what errors.Is finds in an error of BadURL.
var ErrURL = errors.New("bad store URL")

// BadURL returns the error of an Opener for a URL that makes no sense. Its text is the
// reason alone, and must not repeat what may be a password.
func BadURL(format string, args ...any) error { return &badURL{fmt.Sprintf(format, args...)} }

type badURL struct{ reason string }

func (b *badURL) Error() string        { return b.reason }
func (b *badURL) Is(target error) bool { return target == ErrURL }

// ParseURL parses a store's URL as url.Parse does, but takes lists of hosts in every
// form: each host may have a port or not, and be an IPv6 address in brackets. The Host
// of what it returns is the list.
//
// It refuses a URL that can be read in two ways, such as one with an unescaped @
// after the hosts: a password that holds a slash would end up in the path. The
// errors are those of BadURL, and repeat no part of the URL.
func ParseURL(store string) (*url.URL, error) {
	u, err := parse(store)
	if err != nil { // its text repeats the URL
		return nil, BadURL("%s", malformed(store))
	}
	if reason := ambiguity(u); reason != "" {
		return nil, BadURL("%s", reason)
	}
	return u, nil
}

func parse(store string) (*url.URL, error) {
	from, to := authority(store)
	hosts := strings.Split(store[from:to], ",")
	if len(hosts) == 1 {
		return url.Parse(store)
	}
	u, err := url.Parse(store[:from] + store[to:]) // everything but the list
	if err != nil {
		return nil, err
	}
	for i, host := range hosts {
		one, err := url.Parse(u.Scheme + "://" + host)
		if err != nil {
			return nil, err
		}
		hosts[i] = one.Host
	}
	u.Host = strings.Join(hosts, ",")
	return u, nil
}

// authority returns where the hosts of a URL begin, after a user, and where they end.
func authority(store string) (from, to int) {
	scheme, rest, found := strings.Cut(store, ":")
	if !found || !strings.HasPrefix(rest, "//") {
		return 0, 0
	}
	from, to = len(scheme)+len("://"), len(store)
	if i := strings.IndexAny(store[from:], "/?#"); i >= 0 {
		to = from + i
	}
	from += strings.LastIndex(store[from:to], "@") + 1
	return from, to
}

// malformed returns what is wrong with a text that package url does not accept, without
// repeating any of it.
func malformed(store string) string {
	scheme, _, found := strings.Cut(store, ":")
	switch {
	case strings.ContainsFunc(store, unicode.IsControl):
		return "it has a line end or a control character in it"
	case strings.Trim(store, `"'`) != store:
		return "it has quotation marks around it: leave them out"
	case isDSN(store):
		return mysqlDSN
	case !found || scheme == "" || strings.ContainsFunc(scheme, notInScheme):
		return noScheme
	}
	return "it is not of the form scheme://user:password@host:port; " + escapes
}
