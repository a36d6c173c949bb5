package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// redactedEnv tells a nested pawl that its PAWL_STORE had a password. It is that
// PAWL_STORE again: a store that the command chose for itself had none.
const redactedEnv = "PAWL_STORE_REDACTED"

// nest puts the store into the environment of a command, so that a nested pawl meets
// the outer one there, in whatever folder it runs, or fails clearly. A password is left
// out, but for the one in the file that PAWL_STORE_FILE names.
func (s store) addToEnv(env []string) []string {
	env = slices.DeleteFunc(env, func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return key == "PAWL_STORE" || key == redactedEnv || key == "PAWL_STORE_FILE" && s.file != ""
	})
	switch s.from {
	case "-s", "PAWL_STORE":
		public, secret := s.public()
		env = append(env, "PAWL_STORE="+public)
		if secret || s.redacted {
			env = append(env, redactedEnv+"="+public)
		}
	case "PAWL_STORE_FILE":
		env = append(env, "PAWL_STORE_FILE="+s.file)
	}
	return env
}

// secret reports whether the store's URL carries something that ps must not show.
func (s store) secret() bool {
	_, secret := s.public()
	return secret
}

// public is the URL without password, for the command's environment: a nested
// pawl must fail clearly, and not use another store.
func (s store) public() (store string, secret bool) {
	u, err := driver.ParseURL(s.url)
	if err != nil {
		return "", true
	}
	if _, has := u.User.Password(); has {
		u.User, secret = url.User(u.User.Username()), true
	}
	q := u.Query()
	for key, values := range q {
		inline := func(v string) bool { return strings.Contains(v, "PRIVATE KEY") } // PostgreSQL's sslinline
		if driver.SecretParameter(key) || slices.ContainsFunc(values, inline) {
			q.Del(key)
			u.RawQuery, secret = q.Encode(), true
		}
	}
	if !secret {
		return s.url, false // as it was written
	}
	return u.String(), true
}

// wasRedacted reports whether PAWL_STORE is what an outer pawl has left of its own.
func wasRedacted(store string) bool { return store != "" && os.Getenv(redactedEnv) == store }

// missesPassword says where the password is that a store may have wanted.
func (a *app) passwordHint(err error) string {
	if a.store != "" || !wasRedacted(os.Getenv("PAWL_STORE")) || !errors.Is(err, pawl.ErrDenied) && exitCodeOf(err) != exitConfig {
		return ""
	}
	return "; the outer pawl has removed the password from PAWL_STORE: name a file with the URL in PAWL_STORE_FILE, which is passed on untouched"
}

// fix makes a file's path one that stays the same in another folder: the command may
// go to one, and start a pawl there. A path in a store's file begins where that is.
func (s *store) makePathAbsolute(u *url.URL) error {
	if u.Scheme != "sqlite" || u.Opaque == "" {
		return nil
	}
	path, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return nil // the engine says so
	}
	if s.file != "" && !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(s.file), path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return &exitError{exitUnavailable, err}
	}
	*u = *fileURL(path, u.RawQuery)
	s.url = u.String()
	return nil
}

// fileURL is the URL of an SQLite file. An @ in a path is escaped: ParseURL might take
// what is before it for a user. A path that begins with a drive stands behind the scheme:
// after two slashes the drive would be a host.
func fileURL(path, query string) *url.URL {
	u := &url.URL{Scheme: "sqlite", Path: filepath.ToSlash(path), RawQuery: query}
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40")
	if !strings.HasPrefix(u.Path, "/") {
		u.Opaque, u.Path, u.RawPath = u.RawPath, "", ""
	}
	return u
}

// calling begins a line that a person may paste: pawl, with the same -s, if there is
// nothing in it beyond what is shown of a store anyway.
func (a *app) pawlCommand(s store) string {
	if s.from != "-s" {
		return "pawl"
	}
	if s.local != "" {
		return "pawl -s local:"
	}
	whole, err := driver.ParseURL(a.store)
	shown, err2 := driver.ParseURL(s.shown)
	if err != nil || err2 != nil || whole.User != nil || whole.RawQuery != "" || whole.Fragment != "" ||
		[4]string{whole.Scheme, whole.Opaque, whole.Host, whole.Path} != [4]string{shown.Scheme, shown.Opaque, shown.Host, shown.Path} {
		return "pawl -s URL"
	}
	return "pawl -s " + shellWord(s.shown)
}
