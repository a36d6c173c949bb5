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

// redactedEnv tells a nested pawl that a password was removed from its PAWL_STORE.
// It contains that PAWL_STORE again: if the command sets another store, the two
// differ.
const redactedEnv = "PAWL_STORE_REDACTED"

// addToEnv puts the store into the command's environment, so that a nested pawl
// uses the same store, whatever its working directory, or fails with a clear error.
// Passwords are left out, except the one in the file that PAWL_STORE_FILE names.
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

// secret reports whether the store's URL contains something that ps must not show.
func (s store) secret() bool {
	_, secret := s.public()
	return secret
}

// public returns the URL without secrets, for the command's environment. A nested
// pawl that needs them must fail with a clear error, not use another store.
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
		inline := func(v string) bool { return strings.Contains(v, "PRIVATE KEY") } // for PostgreSQL's sslinline
		if driver.SecretParameter(key) || slices.ContainsFunc(values, inline) {
			q.Del(key)
			u.RawQuery, secret = q.Encode(), true
		}
	}
	if !secret {
		return s.url, false // unchanged
	}
	return u.String(), true
}

// wasRedacted reports whether PAWL_STORE was redacted by an outer pawl.
func wasRedacted(store string) bool { return store != "" && os.Getenv(redactedEnv) == store }

// passwordHint explains to the user of a nested pawl where the password has gone.
func (a *app) passwordHint(err error) string {
	if a.store != "" || !wasRedacted(os.Getenv("PAWL_STORE")) || !errors.Is(err, pawl.ErrDenied) && exitCodeOf(err) != exitConfig {
		return ""
	}
	return "; the outer pawl has removed the password from PAWL_STORE: name a file with the URL in PAWL_STORE_FILE, which is passed on as an absolute path"
}

// makePathAbsolute makes the path of an SQLite file independent of the working
// directory, because the command may change it and start another pawl. A relative
// path in a store file is relative to that file's folder.
func (s *store) makePathAbsolute(u *url.URL) error {
	if u.Scheme != "sqlite" || u.Opaque == "" {
		return nil
	}
	path, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return nil // reported by the engine
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

// fileURL returns the URL of an SQLite file. It escapes @, before which ParseURL
// might see a user. A path with a drive letter directly follows the scheme: after
// two slashes the drive would be a host.
func fileURL(path, query string) *url.URL {
	u := &url.URL{Scheme: "sqlite", Path: filepath.ToSlash(path), RawQuery: query}
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40")
	if !strings.HasPrefix(u.Path, "/") {
		u.Opaque, u.Path, u.RawPath = u.RawPath, "", ""
	}
	return u
}

// pawlCommand returns the beginning of a command line for the user to paste: pawl
// with the same -s, if the URL contains nothing beyond what is shown of a store
// anyway.
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
