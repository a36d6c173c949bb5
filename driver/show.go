package driver

import (
	"errors"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// ShowURL returns a store's URL as a person may see it: its scheme and its hosts, or the
// path of a file. It leaves out every other part, since each may carry a password: the
// user, which may be a token, the path, the parameters and an opaque part. It shows
// hosts only if they are names or addresses and the URL can be read in one way only.
func ShowURL(u *url.URL) string {
	switch {
	case ambiguity(u) != "":
		return showScheme(u)
	case namesFile(u.Scheme):
		return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Path: u.Path}).String()
	case u.Host == "" || showScheme(u) == "":
		return showScheme(u)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// showScheme returns the scheme of a URL. One that is not registered may be a user's
// name, as in user:password@host, unless slashes follow it.
func showScheme(u *url.URL) string {
	_, known := Lookup(u.Scheme)
	slashes := u.Opaque == "" && !u.OmitHost && (u.Host != "" || u.User != nil || u.Path != "")
	if known || namesFile(u.Scheme) || slashes && u.Scheme != "" {
		return u.Scheme + ":"
	}
	return ""
}

// ShowParameter returns the name of a parameter that an engine does not have, as in
// `parameter "colour"`. It leaves out a name that may be the rest of a password: one
// without a value, or next to a parameter for passwords.
func ShowParameter(u *url.URL, name string) string {
	plain := name != "" && len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool { return notInScheme(r) && r != '_' })
	for key := range u.Query() {
		plain = plain && (key == name || !SecretParameter(key))
	}
	if !plain || ambiguity(u) != "" || u.Query().Get(name) == "" {
		return "parameter"
	}
	return "parameter " + strconv.Quote(name)
}

// SecretParameter reports whether the value of a parameter of this name may be a
// password, a key or a token, rather than the name of a file that holds one.
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

// ShowableName reports whether a name, such as a database's, may be sent to a server
// that repeats it in an error. A name with a separator of URLs or DSNs in it may be a
// misread part with a password.
func ShowableName(name string) bool {
	return !strings.ContainsAny(name, "?=@&;:/") && !strings.ContainsFunc(name, unicode.IsControl)
}

// WithoutPath returns the reason of an error about a file that a URL names, without the
// path: that is a parameter, and values of parameters are not shown.
func WithoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
