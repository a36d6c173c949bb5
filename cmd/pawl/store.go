package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines"
)

// A store is where the locks live, and how we came to know.
type store struct {
	url   string // may hold a password: never printed
	shown string // without one
	from  string // "-s", "PAWL_STORE", "PAWL_STORE_FILE" or "default"
	local string // the file, if it is the local store
}

// chosen finds the store, and makes the folder of the local one.
func (a *app) chosen() (store, error) {
	s, err := a.choose()
	if err == nil && s.local != "" {
		err = makeLocal(s.local)
	}
	return s, err
}

// choose finds the store: -s, then PAWL_STORE, then PAWL_STORE_FILE, then the
// local one. An empty variable is as good as none.
func (a *app) choose() (store, error) {
	s := store{url: "local:", from: "default"}
	switch file := os.Getenv("PAWL_STORE_FILE"); {
	case a.store != "":
		s = store{url: a.store, from: "-s"}
	case os.Getenv("PAWL_STORE") != "":
		s = store{url: os.Getenv("PAWL_STORE"), from: "PAWL_STORE"}
	case file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			return s, &coded{exitConfig, fmt.Errorf("PAWL_STORE_FILE: %w", err)}
		}
		s = store{url: strings.TrimSpace(string(text)), from: "PAWL_STORE_FILE"}
		if s.url == "" {
			return s, &coded{exitConfig, errors.New("PAWL_STORE_FILE: the file is empty; it must hold a store's URL")}
		}
	}
	if s.url == "local" {
		s.url = "local:"
	}
	u, err := driver.ParseURL(s.url)
	if err == nil {
		err = misread(u)
	}
	if err != nil { // those of package url repeat the URL with its password
		why, ok := errors.AsType[misreading](err)
		if !ok {
			why = misreading("it is not a URL, such as " + strings.Join(schemes(), ", ") + "; " + escapes)
		}
		return s, &coded{exitConfig, fmt.Errorf("the store from %s: %w", s.from, why)}
	}
	s.shown = (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
	if err := s.fix(u); err != nil {
		return s, err
	}
	if u.Scheme == "local" {
		path, err := localPath()
		if err != nil {
			return s, err
		}
		s.url, s.shown, s.local = (&url.URL{Scheme: "sqlite", Path: path, RawQuery: u.RawQuery}).String(), "local: ("+path+")", path
	}
	return s, nil
}

// fix makes a file's path one that stays the same in another folder: the command may
// go to one, and start a pawl there.
func (s *store) fix(u *url.URL) error {
	if u.Scheme != "sqlite" || u.Opaque == "" {
		return nil
	}
	path, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return nil // the engine says so
	}
	if path, err = filepath.Abs(path); err != nil {
		return &coded{exitUnavailable, fmt.Errorf("store %s: %w", s.shown, err)}
	}
	fixed := *u
	fixed.Opaque, fixed.Path = "", filepath.ToSlash(path)
	s.url = fixed.String()
	return nil
}

// A misreading is what is wrong with a URL, without any part of it.
type misreading string

func (m misreading) Error() string { return string(m) }

// misread finds what package url reads otherwise than it was meant. A password
// with a slash in it, or a URL without its slashes, puts the password where a
// message would show it.
func misread(u *url.URL) error {
	files := u.Scheme == "sqlite" || u.Scheme == "local"
	_, known := driver.Lookup(u.Scheme)
	switch {
	case u.Scheme == "":
		return misreading("it has no scheme, such as " + strings.Join(schemes(), ", "))
	case u.Scheme == "local" && (u.Opaque != "" || u.Host != "" || u.Path != ""):
		return misreading("local: takes no path; for a file of your own write sqlite:///path")
	case !known && u.Scheme != "local":
		return misreading(fmt.Sprintf("unknown scheme %q, known are %s", u.Scheme, strings.Join(schemes(), ", ")))
	case strings.Contains(u.Opaque, "@") && !files:
		return misreading("two slashes are missing: " + u.Scheme + "://user@host")
	case u.Fragment != "", strings.Contains(u.Path, "@") && u.Host != "", slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), hasAt):
		return misreading("what comes after the host makes no sense; " + escapes)
	}
	return nil
}

const escapes = "in a password or a path write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %"

func hasAt(s string) bool { return strings.Contains(s, "@") }

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
	for key := range q {
		if secretive(key) {
			q.Del(key)
			u.RawQuery, secret = q.Encode(), true
		}
	}
	if !secret {
		return s.url, false // as it was written
	}
	return u.String(), true
}

// ttl is the life of a lock that the URL asks for; 0 if it does not.
func (s store) ttl() time.Duration {
	u, err := driver.ParseURL(s.url)
	if err != nil {
		return 0
	}
	d, _ := time.ParseDuration(u.Query().Get("ttl")) // Open complains of one that is none
	return d
}

func secretive(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"pass", "secret", "token", "key", "auth"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// schemes lists what -s takes.
func schemes() []string {
	known := []string{"local:"}
	for _, s := range driver.Schemes() {
		known = append(known, s+":")
	}
	return known
}

// firstContact is how long a store may take to answer at all. A test replaces it.
var firstContact = 10 * time.Second

// connect opens the store that was chosen.
func (a *app) connect(ctx context.Context) (*pawl.Client, store, error) {
	s, err := a.chosen()
	if err != nil {
		return nil, s, err
	}
	c, err := a.open(ctx, s)
	return c, s, err
}

// look opens the store that was chosen, to show what is there. A file is not
// changed by that, nor made. The local store is where it is, typed right or not,
// so if it is not there yet nobody holds anything: it is shown as empty, but not to
// those who want to stay.
func (a *app) look(ctx context.Context, stays bool) (*pawl.Client, store, error) {
	s, err := a.choose()
	if err != nil {
		return nil, s, err
	}
	seen := s
	if s.local != "" {
		if err := trustLocal(s.local, false); err != nil {
			return nil, s, err
		}
		if _, err := os.Stat(s.local); errors.Is(err, fs.ErrNotExist) && !stays {
			seen.url = "mem:"
		}
	}
	if u, err := driver.ParseURL(seen.url); err == nil && u.Scheme == "sqlite" {
		q := u.Query()
		q.Set("mode", "ro")
		u.RawQuery = q.Encode()
		seen.url = u.String()
	}
	c, err := a.open(ctx, seen)
	return c, s, err
}

func (a *app) open(ctx context.Context, s store, opts ...pawl.Option) (*pawl.Client, error) {
	if s.from == "-s" && s.secret() {
		a.say("warning: the password in -s shows in ps; use PAWL_STORE or PAWL_STORE_FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	c, err := pawl.Open(ctx, s.url, opts...)
	if err == nil {
		return c, nil
	}
	var reason error = err
	if e, ok := errors.AsType[*pawl.Error](err); ok {
		reason = e.Err
	}
	err = fmt.Errorf("store %s: %w", s.shown, reason)
	switch {
	case errors.Is(err, pawl.ErrInvalid):
		return nil, &coded{exitConfig, err}
	case errors.Is(err, pawl.ErrDenied):
		return nil, &coded{exitDenied, err}
	}
	return nil, &coded{exitUnavailable, err}
}

// leave closes a client, but does not wait long for a store that does not answer:
// whoever started us waits too, and what is left behind ends with its TTL.
func leave(c *pawl.Client) {
	if c == nil {
		return
	}
	closed := make(chan struct{})
	go func() { // ends with the process, if the store does not answer
		_ = c.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}
