package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines"
)

// A store is the place of the locks, and how it was chosen.
type store struct {
	url      string // may contain a password: never printed
	shown    string // url without secrets
	from     string // "-s", "PAWL_STORE", "PAWL_STORE_FILE" or "default"
	file     string // the file that PAWL_STORE_FILE names, if it was used
	redacted bool   // an outer pawl has removed the password
	local    string // the path of the local store, if it is that
}

// findOrCreateStore finds the store, and creates the local store if that is it.
func (a *app) findOrCreateStore() (store, error) {
	s, err := a.findStore()
	if err == nil && s.local != "" {
		err = makeLocal(s.local)
	}
	return s, err
}

// findStore finds the store: -s, then PAWL_STORE, then PAWL_STORE_FILE, then the
// local store. Empty variables count as unset.
func (a *app) findStore() (store, error) {
	s := store{url: "local:", from: "default"}
	switch file, env := os.Getenv("PAWL_STORE_FILE"), os.Getenv("PAWL_STORE"); {
	case a.store != "":
		s = store{url: a.store, from: "-s"}
	case env != "":
		s = store{url: env, from: "PAWL_STORE", redacted: wasRedacted(env)}
	case file != "":
		text, path, err := readStoreFile(file)
		if err != nil {
			return s, &exitError{exitConfig, fmt.Errorf("PAWL_STORE_FILE: %w", err)}
		}
		s = store{url: text, from: "PAWL_STORE_FILE", file: path}
	}
	if s.url == "local" {
		s.url = "local:"
	}
	u, err := parseStore(s.url)
	if err != nil {
		return s, &exitError{exitConfig, fmt.Errorf("the store from %s: %w", s.from, err)}
	}
	if err := s.makePathAbsolute(u); err != nil {
		return s, err
	}
	s.shown = driver.ShowURL(u)
	if u.Scheme == "local" {
		path, err := localPath()
		if err != nil {
			return s, err
		}
		s.url, s.shown, s.local = fileURL(path, u.RawQuery).String(), "local: ("+path+")", path
	}
	return s, nil
}

// parseStore parses a store's URL. Its errors quote nothing of it but the scheme.
func parseStore(store string) (*url.URL, error) {
	if rest, ok := strings.CutPrefix(store, "local:"); ok && rest != "" && !strings.HasPrefix(rest, "?") {
		return nil, errors.New("local: takes no path; for a file of your own write sqlite:///path")
	}
	if !strings.Contains(store, ":") {
		return nil, errors.New("it has no scheme, such as " + strings.Join(schemes(), ", "))
	}
	u, err := driver.ParseURL(store)
	if err != nil {
		return nil, err
	}
	if _, known := driver.Lookup(u.Scheme); known || u.Scheme == "local" {
		return u, nil
	}
	unknown := "unknown scheme"
	if scheme, _, ok := strings.Cut(driver.ShowURL(u), ":"); ok {
		unknown += fmt.Sprintf(" %q", scheme)
	}
	return nil, fmt.Errorf("%s, known are %s", unknown, strings.Join(schemes(), ", "))
}

// ttl returns the TTL from the URL; 0 if there is none.
func (s store) ttl() time.Duration {
	u, err := driver.ParseURL(s.url)
	if err != nil {
		return 0
	}
	d, _ := time.ParseDuration(u.Query().Get("ttl")) // Open reports an invalid one
	return d
}

// schemes returns the schemes that -s accepts.
func schemes() []string {
	known := []string{"local:"}
	for _, s := range driver.Schemes() {
		known = append(known, s+":")
	}
	return known
}

// firstContact is how long a store may take to answer at all. Tests replace it.
var firstContact = 10 * time.Second

// openChosen opens the chosen store.
func (a *app) openChosen(ctx context.Context) (*pawl.Client, store, error) {
	s, err := a.findOrCreateStore()
	if err != nil {
		return nil, s, err
	}
	c, err := a.openStore(ctx, s)
	return c, s, err
}

// openReadOnly opens the chosen store to show its contents. It neither changes nor
// creates a file. If the local store does not exist yet, nothing is held: it is
// shown as empty, unless the caller follows it, as watch does.
func (a *app) openReadOnly(ctx context.Context, stays bool) (*pawl.Client, store, error) {
	s, err := a.findStore()
	if err != nil {
		return nil, s, err
	}
	seen := s
	if s.local != "" {
		if err := checkLocalOwner(s.local, false); err != nil {
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
	c, err := a.openStore(ctx, seen)
	return c, s, err
}

func (a *app) openStore(ctx context.Context, s store, opts ...pawl.Option) (*pawl.Client, error) {
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
		return nil, &exitError{exitConfig, err}
	case errors.Is(err, pawl.ErrDenied):
		return nil, &exitError{exitDenied, err}
	case exitCodeOf(err) == exitBusy: // a file
		return nil, &exitError{exitBusy, err}
	}
	return nil, &exitError{exitUnavailable, err}
}

// closeClient closes a client, but does not wait long for a store that does not
// answer: what is left there expires.
func closeClient(c *pawl.Client) {
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
