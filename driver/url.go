package driver

import (
	"net/url"
	"strings"
)

// ParseURL parses a store's URL. It reads as url.Parse does, but for a list of
// hosts, which package url takes only in some of its forms: here each host may
// have a port or not, and be an IPv6 address in brackets. The Host of what it
// returns is the list. An error may repeat the URL with its password.
func ParseURL(store string) (*url.URL, error) {
	from, to := authority(store)
	hosts := strings.Split(store[from:to], ",")
	if len(hosts) == 1 {
		return url.Parse(store)
	}
	u, err := url.Parse(store[:from] + store[to:]) // with no host at all: what is beside the list
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

// authority is where the hosts of a URL begin, behind a user, and where they end.
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
