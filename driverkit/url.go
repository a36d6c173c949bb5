package driverkit

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A URL reads what a store's URL says, for the opener of an engine. Each parameter is
// read by one call, which gives its name first and then the older names that are still
// accepted. The first fault is kept, and what is read after it has no meaning; Err
// returns it, or complains of parameters that were not read. So an opener reads
// everything and then asks for Err once.
//
// Parameters that several engines have are called the same everywhere: prefix, tls,
// tls-ca, tls-cert, tls-key and tls-name. ttl is pawl's own and removed before an engine
// is opened. No error shows a value, since any part of a URL may be a password.
type URL struct {
	u      *url.URL
	engine string
	query  url.Values
	known  []string // the names that were read, without the older ones
	read   map[string]bool
	err    error
}

// ReadURL begins to read u for an engine whose errors begin with its name. Package
// driver has checked before that u can be read in one way only.
func ReadURL(engine string, u *url.URL) *URL {
	r := &URL{u: u, engine: engine, read: map[string]bool{}}
	var err error
	if r.query, err = url.ParseQuery(u.RawQuery); err != nil {
		r.Fail("the URL's parameters make no sense: write %%3B for ;")
	}
	if u.Fragment != "" {
		r.Fail("# begins a fragment in a URL: write %%23")
	}
	return r
}

// Fail notes a fault in the URL, for Err. The text must not repeat a value.
func (r *URL) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = driver.BadURL(r.engine+": "+format, args...)
	}
}

// Err returns the first fault, or one for a parameter that the engine does not have.
func (r *URL) Err() error {
	if r.err != nil {
		return r.err
	}
	for key := range r.query {
		if r.read[key] {
			continue
		}
		known := strings.Join(r.known, ", ")
		if known == "" {
			known = "none"
		}
		return driver.BadURL("%s: unknown %s (known: %s)", r.engine, driver.ShowParameter(r.u, key), known)
	}
	return nil
}

// Hosts returns the servers as host:port, with port where the URL has none. IPv6
// addresses are in brackets, as net.JoinHostPort has them.
func (r *URL) Hosts(port string) []string {
	if r.u.Opaque != "" || r.u.Host == "" {
		r.Fail("the URL has no host: write %s://host:%s", r.u.Scheme, port)
		return nil
	}
	var all []string
	for text := range strings.SplitSeq(r.u.Host, ",") {
		host, p, err := net.SplitHostPort(text)
		if err != nil { // mostly that it has no port
			host, p = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), port
		}
		n, err := strconv.Atoi(p)
		switch {
		case host == "" || p == "":
			r.Fail("one of the hosts is empty")
		case err != nil || n < 1 || n > 65535, strings.Contains(host, ":") && !strings.HasPrefix(text, "["), strings.ContainsAny(host, "[]"):
			r.Fail("a host is not host:port; an IPv6 address stands in brackets")
		}
		all = append(all, net.JoinHostPort(host, p))
	}
	return all
}

// Login returns the user and the password; both are empty where the URL has none.
func (r *URL) Login() (user, password string) {
	password, _ = r.u.User.Password()
	return r.u.User.Username(), password
}

// Path returns the path without slashes around it.
func (r *URL) Path() string { return strings.Trim(r.u.Path, "/") }

// Text returns a parameter's value. found says whether the URL has it; twice is a fault.
func (r *URL) Text(name string, older ...string) (value string, found bool) {
	r.known = append(r.known, name)
	used := ""
	for _, key := range append([]string{name}, older...) {
		r.read[key] = true
		values := r.query[key]
		if len(values) == 0 {
			continue
		}
		if len(values) > 1 {
			r.Fail("parameter %s stands twice: leave one out", key)
		}
		if found {
			r.Fail("parameters %s and %s say the same: leave one out", used, key)
		}
		used, value, found = key, values[0], true
	}
	return value, found
}

// YesNo returns a parameter that is yes or no, and otherwise what it is without one.
// The words true, on, 1 and their opposites are accepted too.
func (r *URL) YesNo(name string, otherwise bool, older ...string) bool {
	value, found := r.Text(name, older...)
	if !found {
		return otherwise
	}
	switch value {
	case "yes", "true", "on", "1":
		return true
	case "no", "false", "off", "0":
		return false
	}
	r.Fail("parameter %s is not yes or no", name)
	return otherwise
}

// OneOf returns a parameter that is one of several words, and the first of them without
// one.
func (r *URL) OneOf(name string, words ...string) string {
	value, found := r.Text(name)
	switch {
	case !found:
		return words[0]
	case !slices.Contains(words, value):
		r.Fail("parameter %s is not one of %s", name, strings.Join(words, ", "))
		return words[0]
	}
	return value
}

// Duration returns a parameter that is a duration of at least least, and otherwise what
// it is without one.
func (r *URL) Duration(name string, otherwise, least time.Duration, older ...string) time.Duration {
	value, found := r.Text(name, older...)
	if !found {
		return otherwise
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least {
		r.Fail("parameter %s is not a duration of %v or more", name, least)
	}
	return d
}

// Number returns a parameter that is a whole number of at least least, and otherwise
// what it is without one.
func (r *URL) Number(name string, otherwise, least int, older ...string) int {
	value, found := r.Text(name, older...)
	if !found {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		r.Fail("parameter %s is not a number of %d or more", name, least)
	}
	return n
}
