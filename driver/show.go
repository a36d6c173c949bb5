package driver

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// ShowURL shows a store to a person: its scheme and its hosts, or the path of a file.
// No other part of a URL is shown, since each may carry a password: not the user, for
// which a token may stand, not the path, the parameters or what is opaque. Hosts are
// shown only if they are names or addresses, and the URL can be read in one way only.
func ShowURL(u *url.URL) string {
	switch {
	case misread(u) != "":
		return showScheme(u)
	case namesFile(u.Scheme):
		return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Path: u.Path}).String()
	case u.Host == "" || showScheme(u) == "":
		return showScheme(u)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// showScheme shows a scheme. One that nobody has registered may be a user's name, as
// in user:password@host, unless slashes follow it.
func showScheme(u *url.URL) string {
	_, known := Lookup(u.Scheme)
	slashes := u.Opaque == "" && !u.OmitHost && (u.Host != "" || u.User != nil || u.Path != "")
	if known || namesFile(u.Scheme) || slashes && u.Scheme != "" {
		return u.Scheme + ":"
	}
	return ""
}

// ShowParameter shows the name of a parameter that an engine does not know, as in
// `parameter "colour"`. It leaves out a name that may be the rest of a password: one
// that has no value, or stands beside a parameter for one.
func ShowParameter(u *url.URL, name string) string {
	plain := name != "" && len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool { return notOfScheme(r) && r != '_' })
	for key := range u.Query() {
		plain = plain && (key == name || !SecretParameter(key))
	}
	if !plain || misread(u) != "" || u.Query().Get(name) == "" {
		return "parameter"
	}
	return "parameter " + strconv.Quote(name)
}

// SecretParameter reports whether a parameter of this name may carry a password, a key
// or a token itself, and not the name of a file that holds one.
func SecretParameter(name string) bool {
	switch name = strings.ToLower(name); name {
	case "tls-key", "key", "sslkey", "passfile", "sentinel-auth", "require_auth":
		return false
	}
	for _, word := range []string{"pass", "pwd", "secret", "token", "key", "auth", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// ShowableName reports whether a server may be asked for something of this name, such
// as a database, and repeat it in an error. Names that hold what separates the parts
// of a URL or a DSN may be a part that was misread, with a password in it.
func ShowableName(name string) bool {
	return !strings.ContainsAny(name, "?=@&;:/") && !strings.ContainsFunc(name, unicode.IsControl)
}

// WithoutPath returns the reason of an error of a file that a URL names, without the
// name: that is a parameter, and parameters are not shown.
func WithoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// namesFile reports whether URLs of a scheme have the path of a file in place of hosts.
// local: is the command's, for an SQLite file in a place of its own.
func namesFile(scheme string) bool { return scheme == "sqlite" || scheme == "local" }

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
