package dashboard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var allPaths = []string{"/", "/tree", "/name?name=x", "/holder?session=x", "/metrics", "/api/v1/locks", "/healthz", "/assets/live.js", "/assets/style.css", "/no-such-page"}

func TestOnlyNamesOfThisServerAreAnswered(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) {
		o.Names, o.Hosts = []string{"db1.example.com"}, []string{"locks.example.com"}
	})
	_, port, _ := net.SplitHostPort(s.addr)
	for host, want := range map[string]int{
		s.addr:                          200,
		"localhost:" + port:             200,
		"LOCALHOST.:" + port:            200,
		"[::1]:" + port:                 200,
		"127.0.0.2:" + port:             200,
		"db1.example.com:" + port:       200,
		"locks.example.com":             200,
		"locks.example.com:8443":        200,
		"localhost":                     421,
		"localhost:1":                   421,
		"db1.example.com":               421,
		"evil.example.com:" + port:      421,
		"evil.example.com":              421,
		"locks.example.com.evil.com":    421,
		"localhost.evil.com:" + port:    421,
		"10.1.2.3:" + port:              421, // not an address of this connection
		"127.0.0.1.nip.example:" + port: 421,
	} {
		for _, path := range allPaths {
			got := s.get(path, func(r *http.Request) { r.Host = host }).status
			if path == "/no-such-page" && want == 200 {
				if got != 404 {
					t.Errorf("%s%s: %d", host, path, got)
				}
			} else if got != want {
				t.Errorf("%s%s: %d, want %d", host, path, got, want)
			}
		}
	}
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for origin, want := range map[string]int{
		"http://" + s.addr:       200,
		"https://" + s.addr:      200, // behind a proxy that encrypts
		"null":                   403,
		"http://evil.example":    403,
		"http://127.0.0.1:1":     403,
		"http://" + s.addr + "1": 403,
		"file://":                403,
		"ftp://" + s.addr:        403,
		"http://":                403,
		"":                       403,
	} {
		for _, path := range allPaths[:9] {
			if got := s.get(path, func(r *http.Request) { r.Header["Origin"] = []string{origin} }).status; got != want {
				t.Errorf("Origin %q, %s: %d, want %d", origin, path, got, want)
			}
		}
	}
	if got := s.get("/", func(r *http.Request) { r.Header["Origin"] = []string{"http://" + s.addr, "http://evil.example"} }).status; got != 403 {
		t.Errorf("two origins: %d", got)
	}
}

func TestOnlyReadingMethodsAreAnswered(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
		for _, path := range allPaths {
			if got := s.do(method, path, "", nil).status; got != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, got)
			}
		}
	}
	if got := s.do("HEAD", "/", "", nil); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
	if got := s.do("HEAD", "/events?view=/", "", nil); got.status != 200 {
		t.Errorf("HEAD of a stream: %d", got.status)
	}
}

func TestEveryAnswerHasTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) { o.Password = "secret" })
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.SetBasicAuth("ana", "secret") },
		func(r *http.Request) {},
		func(r *http.Request) { r.Host = "evil.example" },
		func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		func(r *http.Request) { r.Method = "POST" },
	} {
		for _, path := range allPaths {
			h := s.get(path, change).header
			for key, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
				"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			} {
				if got := h.Get(key); got != want {
					t.Errorf("%s: %s is %q", path, key, got)
				}
			}
			if h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s is open to other sites", path)
			}
		}
	}
}

func TestEverythingButHealthNeedsThePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), func(o *Options) { o.Password, o.Shown = "opensesame", "redis://shown" })
	hold(t, newClient(t, s.store.Engine(), "ana@h pid 1 x"), "private")
	for _, path := range append(allPaths, "/events?view=/") {
		if path == "/healthz" {
			continue
		}
		got := s.get(path, nil)
		if got.status != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic ") || strings.Contains(got.body, "private") {
			t.Errorf("%s without a password: %d %q", path, got.status, got.body)
		}
		if got := s.get(path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer opensesame") }); got.status != 401 {
			t.Errorf("%s with something else: %d", path, got.status)
		}
	}
	if got := s.do("POST", "/unlock", "name=x&token=1", nil); got.status != 401 {
		t.Errorf("unlock without a password: %d", got.status)
	}
	if got := s.get("/healthz", nil); got.status != 200 || got.body != "store up\n" {
		t.Errorf("health: %d %q", got.status, got.body)
	}
	for _, user := range []string{"", "ana", "anyone:at:all"} {
		if got := s.get("/", func(r *http.Request) { r.SetBasicAuth(strings.ReplaceAll(user, ":", ""), "opensesame") }); got.status != 200 {
			t.Errorf("user %q with the password: %d", user, got.status)
		}
	}
}

func TestWrongPasswordsAreLimited(t *testing.T) {
	t.Parallel()
	told := make(chan netip.Addr, 100)
	s := newSite(t, newMemory(t), func(o *Options) {
		o.Password, o.WrongPasswords = "opensesame", func(client netip.Addr) { told <- client }
	})
	login := func(password string) int {
		return s.get("/", func(r *http.Request) { r.SetBasicAuth("ana", password) }).status
	}
	for i := range loginTries {
		for _, wrong := range []string{"", "opensesam", "opensesame ", "Opensesame"}[i%4 : i%4+1] {
			if got := login(wrong); got != 401 {
				t.Fatalf("wrong password %q: %d", wrong, got)
			}
		}
	}
	// Behind a proxy those who know the password have the address of the one who guesses.
	if got := login("opensesame"); got != 200 {
		t.Errorf("the right one after %d wrong passwords: %d", loginTries, got)
	}
	select {
	case client := <-told:
		if !client.IsLoopback() || len(told) > 0 {
			t.Errorf("told of %v, and %d more", client, len(told))
		}
	default:
		t.Error("nobody was told")
	}
	if got := s.get("/healthz", nil).status; got != 200 {
		t.Errorf("health: %d", got)
	}
	if got := s.get("/", nil).status; got != 401 {
		t.Errorf("without a password: %d", got)
	}
}

func TestALimitEndsAndRemembersFewClients(t *testing.T) {
	t.Parallel()
	l, now := newLoginLimit(), time.Now()
	client := netip.MustParseAddr("192.0.2.1")
	for range loginTries {
		l.failed(client, now)
	}
	checks := func(client netip.Addr, at time.Time) (n int, last time.Duration) {
		for ; n < 100; n++ {
			d, ok := l.pause(client, at)
			if !ok {
				break
			}
			last = d
		}
		return n, last
	}
	if n, last := checks(client, now.Add(loginWindow-20*time.Second)); n != 11 || last != maxPause {
		t.Errorf("%d checks at once, the last after %v", n, last)
	}
	if n, last := checks(client, now.Add(loginWindow)); n != 100 || last != 0 {
		t.Error("the limit does not end after its time")
	}
	if n, last := checks(netip.MustParseAddr("192.0.2.2"), now); n != 100 || last != 0 {
		t.Error("another client is slowed down")
	}
	for i := range 3 * maxClients {
		l.failed(netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/250, i%250)), now.Add(time.Second))
	}
	if len(l.clients) > maxClients {
		t.Errorf("%d clients are remembered", len(l.clients))
	}
}

func TestAnIPv6NetworkIsOneClient(t *testing.T) {
	t.Parallel()
	of := func(remote string) netip.Addr { return clientOf(&http.Request{RemoteAddr: remote}) }
	if of("[2001:db8::1]:1") != of("[2001:db8::ffff]:2") || of("[2001:db8::1]:1") == of("[2001:db8:0:1::1]:1") {
		t.Error("IPv6 clients are told apart by something else than their network")
	}
	if of("[::ffff:192.0.2.1]:1") != of("192.0.2.1:2") || of("192.0.2.1:1") == of("192.0.2.2:1") {
		t.Error("IPv4 clients are not told apart by their address")
	}
}

func TestTheLocalAddressOfAConnectionIsKnown(t *testing.T) {
	t.Parallel()
	local := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 7295}
	d := New(Options{Port: 7295})
	for host, want := range map[string]bool{"192.0.2.7:7295": true, "192.0.2.8:7295": false, "192.0.2.7:80": false, "[::ffff:192.0.2.7]:7295": true} {
		r, _ := http.NewRequest("GET", "/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
		if got := d.knowsHost(r); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

func TestOtherSitesMayLinkToAPageAndNotEmbedIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	for _, c := range []struct {
		site, mode, dest string
		want             int
	}{
		{"none", "navigate", "document", 200}, // typed, or a bookmark
		{"same-origin", "cors", "empty", 200},
		{"cross-site", "navigate", "document", 200},
		{"same-site", "navigate", "document", 200},
		{"cross-site", "navigate", "iframe", 403},
		{"cross-site", "no-cors", "image", 403},
		{"same-site", "no-cors", "image", 403}, // another port of this host
		{"cross-site", "no-cors", "script", 403},
		{"cross-site", "", "", 403},
	} {
		for _, path := range append(allPaths[:9:9], "/events?view=/") {
			got := s.do("HEAD", path, "", func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", c.site)
				r.Header.Set("Sec-Fetch-Mode", c.mode)
				r.Header.Set("Sec-Fetch-Dest", c.dest)
			})
			if got.status != c.want {
				t.Errorf("%+v, %s: %d", c, path, got.status)
			}
		}
	}
}
