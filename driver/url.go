package driver

import (
	"net/url"
	"strings"
	"unicode"
)

// ParseURL parses a store's URL. It reads as url.Parse does, but for a list of
// hosts, which package url takes only in some of its forms: here each host may
// have a port or not, and be an IPv6 address in brackets. The Host of what it
// returns is the list.
//
// A URL that can be read in two ways is refused, such as one with an unescaped @
// behind the hosts: a password that holds a slash would end up in the path. The
// errors are those of BadURL, and repeat no part of the URL.
func ParseURL(store string) (*url.URL, error) {
	u, err := parse(store)
	if err != nil { // repeats the URL
		return nil, BadURL("%s", malformed(store))
	}
	if reason := misread(u); reason != "" {
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

const (
	escapes  = "in a password or a path write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %"
	noScheme = "it has no scheme: write scheme://user:password@host:port"
	ofMySQL  = "it is a DSN of MySQL's Go driver: write mysql://user:password@host:3306/database"
)

// malformed says what is wrong with a text that package url does not take for a
// URL, in words of our own.
func malformed(store string) string {
	scheme, _, found := strings.Cut(store, ":")
	switch {
	case strings.ContainsFunc(store, unicode.IsControl):
		return "it has a line end or a control character in it"
	case strings.Trim(store, `"'`) != store:
		return "it has quotation marks around it: leave them out"
	case isDSN(store):
		return ofMySQL
	case !found || scheme == "" || strings.ContainsFunc(scheme, notOfScheme):
		return noScheme
	}
	return "it is not of the form scheme://user:password@host:port; " + escapes
}

func isDSN(s string) bool { return strings.Contains(s, "@tcp(") || strings.Contains(s, "@unix(") }

func notOfScheme(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
}

// misread finds what package url reads otherwise than it was meant, which puts a
// password where a path, a parameter or a host is looked for. "": nothing.
func misread(u *url.URL) string {
	at := func(s string) bool { return strings.Contains(s, "@") }
	switch path := u.EscapedPath(); {
	case u.Scheme == "":
		return noScheme
	case namesFile(u.Scheme):
		return misreadFile(u)
	case isDSN(u.Opaque), isDSN("@" + u.Host):
		return ofMySQL
	case at(u.Opaque):
		return "two slashes are missing: write scheme://user:password@host:port"
	case strings.ContainsAny(u.User.Username(), "?=&;:/"): // a password may be in it, and a server repeats users
		return "a user has one of ? = & ; : / in it; write scheme://user:password@host:port, with the : as it is"
	case u.Fragment != "", at(path), at(u.RawQuery):
		return "what comes after the host makes no sense; " + escapes
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host != "" && !isHost(host) {
			return "a host is not host:port, with an IPv6 address in brackets; " + escapes
		}
	}
	return ""
}

// misreadFile is misread where the URL names a file, whose path may have an @ in it.
func misreadFile(u *url.URL) string {
	path := strings.TrimPrefix(u.Opaque+u.EscapedPath(), "/")
	if len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\') {
		path = path[2:] // of a drive
	}
	_, behind, found := strings.Cut(path, ":")
	switch {
	case u.User != nil:
		return "a file has no user or password: write " + u.Scheme + ":///path"
	case u.Host != "":
		return "the path begins where a host would stand: write " + u.Scheme + ":///absolute/path or " + u.Scheme + ":relative/path"
	case found && strings.Contains(behind, "@"):
		return "a file has no user or password; in a path write %3A for : and %40 for @"
	case u.Fragment != "":
		return "# begins a fragment in a URL; " + escapes
	}
	return ""
}
