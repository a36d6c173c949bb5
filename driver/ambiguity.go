package driver

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

const (
	escapes  = "in a password or a path write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %"
	noScheme = "it has no scheme: write scheme://user:password@host:port"
	mysqlDSN = "it is a DSN of MySQL's Go driver: write mysql://user:password@host:3306/database"
)

// ambiguity returns why a URL may mean something else than package url has read, with a
// password in the place of a path, a parameter or a host; "" if it can be read in one
// way only.
func ambiguity(u *url.URL) string {
	at := func(s string) bool { return strings.Contains(s, "@") }
	switch path := u.EscapedPath(); {
	case u.Scheme == "":
		return noScheme
	case namesFile(u.Scheme):
		return fileAmbiguity(u)
	case isDSN(u.Opaque), isDSN("@" + u.Host):
		return mysqlDSN
	case at(u.Opaque):
		return "two slashes are missing: write scheme://user:password@host:port"
	case strings.ContainsAny(u.User.Username(), "?=&;:/"): // a password may be in it, and servers repeat users
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

// fileAmbiguity is ambiguity for a URL that names a file. A path may have an @ in it.
func fileAmbiguity(u *url.URL) string {
	path := strings.TrimPrefix(u.Opaque+u.EscapedPath(), "/")
	if len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\') {
		path = path[2:] // of a drive
	}
	_, rest, found := strings.Cut(path, ":")
	switch {
	case u.User != nil:
		return "a file has no user or password: write " + u.Scheme + ":///path"
	case u.Host != "":
		return "the path begins where a host would stand: write " + u.Scheme + ":///absolute/path or " + u.Scheme + ":relative/path"
	case found && strings.Contains(rest, "@"):
		return "a file has no user or password; in a path write %3A for : and %40 for @"
	case u.Fragment != "":
		return "# begins a fragment in a URL; " + escapes
	}
	return ""
}

// namesFile reports whether URLs of a scheme have the path of a file in place of hosts.
// local: is the command's, for an SQLite file at a fixed path.
func namesFile(scheme string) bool { return scheme == "sqlite" || scheme == "local" }

func isDSN(s string) bool { return strings.Contains(s, "@tcp(") || strings.Contains(s, "@unix(") }

// isHost reports whether s is a name or an address, with a port or not.
func isHost(s string) bool {
	name, port, found := s, "", false
	if i := strings.LastIndex(s, ":"); i > strings.LastIndex(s, "]") {
		name, port, found = s[:i], s[i+1:], true
	}
	if found && port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		addr, err := netip.ParseAddr(name[1 : len(name)-1])
		return err == nil && addr.Is6() && isName(addr.Zone())
	}
	return name != "" && isName(name)
}

func isName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r)
	})
}

// notInScheme reports whether r cannot be part of a scheme.
func notInScheme(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
}
