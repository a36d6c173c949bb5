package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines"
)

// A store is where the locks live, and how we came to know.
type store struct {
	url   string // may hold a password: never printed
	shown string // without one
	from  string // "-s", "PAWL_STORE", "PAWL_STORE_FILE" or "default"
}

// chosen finds the store: -s, then PAWL_STORE, then PAWL_STORE_FILE, then the
// local one. An empty variable is as good as none.
func (a *app) chosen() (store, error) {
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
	if s.url == "local:" || s.url == "local" {
		path, err := localPath()
		if err != nil {
			return s, &coded{exitConfig, err}
		}
		s.url, s.shown = (&url.URL{Scheme: "sqlite", Path: path}).String(), "local: ("+path+")"
		return s, nil
	}
	u, err := url.Parse(s.url)
	if err != nil || u.Scheme == "" {
		return s, &coded{exitConfig, fmt.Errorf("the store from %s is not a URL; such as %s", s.from, strings.Join(schemes(), ", "))}
	}
	s.shown = shown(u)
	return s, nil
}

// secret reports whether the store's URL carries something that ps must not show.
func (s store) secret() bool { return s.childURL() != s.url }

// childURL is the URL for the command's environment: without password, so that a
// nested pawl fails clearly instead of using another store.
func (s store) childURL() string {
	u, err := url.Parse(s.url)
	if err != nil {
		return ""
	}
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for key := range q {
		if secretive(key) {
			q.Del(key)
			u.RawQuery = q.Encode()
		}
	}
	return u.String()
}

// shown is a URL as people may see it: neither user info nor secret parameters.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
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

// connect opens the store that was chosen.
func (a *app) connect(ctx context.Context, opts ...pawl.Option) (*pawl.Client, store, error) {
	s, err := a.chosen()
	if err != nil {
		return nil, s, err
	}
	if a.store != "" && s.secret() {
		a.say("warning: the password in -s shows in ps; use PAWL_STORE or PAWL_STORE_FILE")
	}
	c, err := pawl.Open(ctx, s.url, opts...)
	if err == nil {
		return c, s, nil
	}
	var reason error = err
	if e, ok := errors.AsType[*pawl.Error](err); ok {
		reason = e.Err
	}
	err = fmt.Errorf("store %s: %w", s.shown, reason)
	switch {
	case errors.Is(err, pawl.ErrInvalid), unknownParameter(err):
		return nil, s, &coded{exitConfig, err}
	case errors.Is(err, pawl.ErrDenied):
		return nil, s, &coded{exitDenied, err}
	}
	return nil, s, &coded{exitUnavailable, err}
}

// unknownParameter recognises what engines say of a parameter they do not know.
func unknownParameter(err error) bool { return strings.Contains(err.Error(), "unknown parameter") }

// stateFolder is where this user's local store is. A test replaces it.
var stateFolder = func() (string, error) {
	uid := os.Getuid()
	if uid == 0 {
		return filepath.FromSlash("/var/lib/pawl"), nil
	}
	// The passwd entry, not $HOME or $XDG_STATE_HOME: cron and a login shell must
	// meet in one store, or both would hold the lock.
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.HomeDir != "" {
		return filepath.Join(u.HomeDir, ".local", "state", "pawl"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && uid < 0 { // no user ids on this system
		return filepath.Join(home, ".local", "state", "pawl"), nil
	}
	return "", fmt.Errorf("no home folder for user %d; name a store with -s, such as sqlite:///path", uid)
}

// localPath is the local store's file; its folder is made if it is not there.
func localPath() (string, error) {
	dir, err := stateFolder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("local store: %w", err)
	}
	return filepath.Join(dir, "locks.db"), nil
}
