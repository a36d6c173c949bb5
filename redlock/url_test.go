package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

func TestClientsThatNameOtherNodesAreRefused(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 4, shortMaxTTL)
	three := &cluster{servers: f.servers[:3], proxies: f.proxies[:3], query: f.query}
	unlock(t, lock(t, three.client(t, pawl.WithTTL(5*time.Second)), "name"))
	for about, url := range map[string]string{
		"a node more":     f.url(f.hosts()...),
		"another max-ttl": strings.Replace(f.url(three.hosts()...), shortMaxTTL, "max-ttl=2m", 1),
	} {
		c, err := pawl.Open(t.Context(), url, pawl.WithTTL(5*time.Second))
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = c.Mutex("name").TryLock(ctx)
			cancel()
			c.Close()
		}
		if !errors.Is(err, driver.ErrDenied) {
			t.Errorf("%s: %v, not ErrDenied", about, err)
		}
	}
	reversed := &cluster{query: f.query, servers: f.servers[:3], proxies: []*faultproxy.Proxy{f.proxies[2], f.proxies[0], f.proxies[1]}}
	unlock(t, lock(t, reversed.client(t, pawl.WithTTL(5*time.Second)), "name"))
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redlock://":                          "no hosts",
		"redlock://a":                         "three",
		"redlock://a,b":                       "three",
		"redlock://a,b,a":                     "twice",
		"redlock://a,,b":                      "not at all",
		"redlock://a,b,c?colour=red":          "known: max-ttl",
		"redlock://a,b,c?max-ttl=never":       "max-ttl",
		"redlock://u:secret@a,b,c?wait=1":     "unknown parameter",
		"redlock://u:secret@a:99999,b:x,c:-1": "",
	} {
		_, err := pawl.Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q and no password", url, err, want)
		}
	}
	c, err := pawl.Open(t.Context(), "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, pawl.ErrUnreachable) {
		t.Errorf("no server: %v, not ErrUnreachable", err)
	}
}

func TestSemaphoresAreRefused(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 3, shortMaxTTL)
	_, err := f.client(t, pawl.WithTTL(5*time.Second)).Semaphore("name", 3).TryAcquire(t.Context(), 1)
	if !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("%v, not ErrUnsupported", err)
	}
}
