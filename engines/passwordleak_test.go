package engines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	_ "github.com/pawl-go/pawl/engines"
	"github.com/pawl-go/pawl/internal/passwordleak"
)

func TestNoErrorShowsThePasswordOfAURL(t *testing.T) {
	t.Chdir(t.TempDir()) // a relative path may create a file
	var logged record
	log.SetOutput(&logged) // slog writes to it as well
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	var tasks sync.WaitGroup
	defer func() {
		tasks.Wait()
		if found := passwordleak.Find(logged.text()); found != "" {
			t.Errorf("a log shows %s: %s", found, logged.text())
		}
	}()
	places := make(chan struct{}, 64) // most of them wait for a connection
	for _, scheme := range append(driver.Schemes(), "nosql") {
		for _, store := range passwordleak.URLs(scheme) {
			if u, err := driver.ParseURL(store); err == nil && u.Scheme == "sqlite" {
				continue // a file, whose path is shown
			}
			places <- struct{}{}
			tasks.Go(func() {
				defer func() { <-places }()
				inspect(t, store, use(t.Context(), store))
				if u, err := url.Parse(store); err == nil { // as a caller of the opener itself would do
					if found := passwordleak.Find(driver.ShowURL(u)); found != "" {
						t.Errorf("%q is shown as %q", store, driver.ShowURL(u))
					}
					if open, ok := driver.Lookup(u.Scheme); ok {
						inspect(t, store, openBy(t.Context(), open, u))
					}
				}
			})
		}
	}
}

// A record is everything that was logged.
type record struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

// Write keeps what is logged.
func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Write(b)
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// use opens a store and takes a lock there, as far as possible.
func use(ctx context.Context, store string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := pawl.Open(ctx, store)
	if err != nil {
		return err
	}
	_, err = c.Mutex("name").TryLock(ctx)
	return errors.Join(err, c.Close())
}

func openBy(ctx context.Context, open driver.Opener, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	e, err := open(ctx, u)
	if err != nil {
		return err
	}
	_, err = e.Open(ctx, driver.SessionOptions{ID: "0123456789abcdef0123456789abcdef", TTL: 10 * time.Second})
	return errors.Join(err, e.Close())
}

// address matches a pointer in the output of %#v, whose digits are arbitrary.
var address = regexp.MustCompile(`\(0x[0-9a-f]+\)`)

// inspect searches the password in an error and everything that it wraps, in every
// way in which one is printed or logged.
func inspect(t *testing.T, store string, err error) {
	if err == nil {
		return
	}
	object, _ := json.Marshal(err)
	texts := []string{err.Error(), fmt.Sprintf("%v %+v %q", err, err, err), address.ReplaceAllString(fmt.Sprintf("%#v", err), ""), string(object)}
	if e, ok := err.(*pawl.Error); ok {
		texts = append(texts, e.Op, e.Name, e.Engine)
	}
	for _, text := range texts {
		if found := passwordleak.Find(text); found != "" {
			t.Errorf("%q: %T shows %s: %s", store, err, found, text)
			return
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inspect(t, store, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			inspect(t, store, one)
		}
	}
}
