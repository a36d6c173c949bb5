package httponce_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once/httponce"
)

// handle puts a handler behind the middleware.
func handle(t *testing.T, f http.HandlerFunc, opts ...httponce.Option) http.Handler {
	t.Helper()
	c := pawl.New(memlock.New())
	t.Cleanup(func() { _ = c.Close() })
	return httponce.Handler(c, f, opts...)
}

// postAs posts with one header more.
func postAs(h http.Handler, key, name, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("tea"))
	r.Header.Set(httponce.Header, key)
	r.Header.Set(name, value)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func setsCookie(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Set-Cookie", "session="+r.Header.Get("X-User"))
	w.Header().Set("Keep-Alive", "timeout=5")
	w.Header()["connection"] = []string{"X-Hop"}
	w.Header().Set("X-Hop", "1")
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
}

// Any client that knows a key and its request gets the response, but no header that was
// for the first client alone.
func TestWithoutAScopeNoDuplicateGetsTheFirstOnesCookie(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]httponce.Option{
		"no scope":       nil,
		"an empty scope": {httponce.WithScope(func(*http.Request) string { return "" })},
	} {
		h := handle(t, setsCookie, opts...)
		if w := postAs(h, "k", "X-User", "ana"); w.Header().Get("Set-Cookie") != "session=ana" {
			t.Errorf("%s: the first client gets %v", name, w.Header())
		}
		w := postAs(h, "k", "X-User", "bob")
		if w.Code != http.StatusCreated || w.Header().Get("Location") != "/orders/1" || w.Header().Get(httponce.Replayed) == "" {
			t.Errorf("%s: a duplicate: %d %v", name, w.Code, w.Header())
		}
		if c := w.Header().Get("Set-Cookie"); c != "" {
			t.Errorf("%s: a duplicate gets the cookie %q", name, c)
		}
	}
	h := handle(t, setsCookie, httponce.WithScope(func(r *http.Request) string { return r.Header.Get("X-User") }))
	postAs(h, "k", "X-User", "ana")
	if w := postAs(h, "k", "X-User", "ana"); w.Header().Get("Set-Cookie") != "session=ana" {
		t.Errorf("a duplicate of the same account: %v", w.Header())
	}
}

func TestHeadersOfOneConnectionAreNotKept(t *testing.T) {
	t.Parallel()
	h := handle(t, setsCookie)
	for range 2 {
		w := post(h, "k", "tea")
		for name := range w.Header() {
			if strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive") || strings.EqualFold(name, "X-Hop") {
				t.Errorf("%s is sent", name)
			}
		}
	}
}

// A service whose callers log in must say whose a key is: the middleware cannot know
// which of their credentials change from one try to the next.
func TestCredentialsWithoutAScopeAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Authorization", "Cookie"} {
		served := 0
		count := func(w http.ResponseWriter, _ *http.Request) { served++ }
		if w := postAs(handle(t, count), "k", name, "ana"); w.Code != http.StatusInternalServerError || served != 0 {
			t.Errorf("%s without a scope: %d, served %d times", name, w.Code, served)
		}
		h := handle(t, count, httponce.WithScope(func(r *http.Request) string { return r.Header.Get(name) }))
		for _, who := range []string{"ana", "bob", "ana"} {
			if w := postAs(h, "k", name, who); w.Code != http.StatusOK {
				t.Errorf("%s with a scope: %d", name, w.Code)
			}
		}
		if served != 2 {
			t.Errorf("%s with a scope: served %d times, not twice", name, served)
		}
		r := httptest.NewRequest(http.MethodPost, "/orders", nil) // without a key nothing is kept
		r.Header.Set(name, "ana")
		w := httptest.NewRecorder()
		handle(t, count).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s without a key: %d", name, w.Code)
		}
	}
}

// An answer that says "try again" is not what came of the request.
func TestAnAnswerThatSaysTryAgainIsNotKept(t *testing.T) {
	t.Parallel()
	for status, after := range map[int]string{
		401: "", 407: "", 408: "", 421: "", 423: "", 425: "", 429: "", 500: "", 502: "", 503: "",
		400: "-", 402: "-", 403: "-", 404: "-", 409: "-", 410: "-", 412: "-", 422: "-", 303: "-", 200: "-",
		-409: "1", -403: "120",
	} {
		kept := after == "-"
		served := 0
		h := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			if served++; served > 1 {
				return
			}
			if status < 0 {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(max(status, -status))
			fmt.Fprint(w, "first")
		})
		if w := post(h, "k", "tea"); w.Code != max(status, -status) || w.Body.String() != "first" {
			t.Errorf("%d: the first client gets %d %q", status, w.Code, w.Body)
		}
		if w := post(h, "k", "tea"); kept != (served == 1) || kept != (w.Body.String() == "first") {
			t.Errorf("%d: served %d times, and a duplicate gets %d %q", status, served, w.Code, w.Body)
		}
	}
}

func TestABodyOf60KiBIsKeptWhateverItsBytes(t *testing.T) {
	t.Parallel()
	body := make([]byte, 60<<10)
	_, _ = rand.Read(body) // never fails
	served := 0
	h := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(body)
	})
	for i := range 2 {
		w := post(h, "k", "tea")
		got, _ := io.ReadAll(w.Body)
		if w.Code != http.StatusOK || string(got) != string(body) || served != 1 || w.Header().Get("Content-Type") != "application/octet-stream" {
			t.Errorf("request %d: %d, %d bytes, served %d times", i, w.Code, len(got), served)
		}
	}
}
