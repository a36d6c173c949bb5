package httponce_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// What is stored of a scope is no secret, however long it is.
func TestAScopeIsStoredAsAHash(t *testing.T) {
	t.Parallel()
	seen := &keys{Engine: memlock.New()}
	c := pawl.New(seen)
	t.Cleanup(func() { _ = c.Close() })
	served := 0
	h := httponce.Handler(c, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served++
		for e, err := range c.List(r.Context(), "") { // the lock while it runs
			seen.note(fmt.Sprint(e.Name, e.Note, err))
		}
	}), httponce.WithScope(func(r *http.Request) string { return r.Header.Get("Authorization") }))
	secret := "Bearer " + strings.Repeat("hunter2.", 200)
	for i, who := range []string{secret, secret, secret + "x"} {
		if w := postAs(h, "k", "Authorization", who); w.Code != http.StatusOK {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
	if served != 2 {
		t.Errorf("served %d times, not once for each scope", served)
	}
	if all := seen.all(); len(all) == 0 || strings.Contains(strings.Join(all, " "), "hunter2") {
		t.Errorf("the store sees %q", all)
	}
}

// keys is an engine that notes the keys of records and the names of claims.
type keys struct {
	*memlock.Engine
	mu   sync.Mutex // guards seen
	seen []string
}

func (k *keys) note(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, key)
}

func (k *keys) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.seen)
}

func (k *keys) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	k.note(key)
	return k.Engine.Load(ctx, key)
}

func (k *keys) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	k.note(key + string(value))
	return k.Engine.Store(ctx, key, value, ifVersion, keep)
}

func TestHeadersKeepTheirBytes(t *testing.T) {
	t.Parallel()
	want := []string{"caf\xe9", "\xff\xfe", "caf\u00e9"}
	h := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Latin"] = want
		w.Header()["X-Plain"] = want[2:]
	})
	for i := range 2 {
		w := post(h, "k", "tea")
		if got := w.Header()["X-Latin"]; !slices.Equal(got, want) || w.Header().Get("X-Plain") != want[2] {
			t.Errorf("request %d: %q", i, w.Header())
		}
	}
}

// net/http panics at a status that is none, and so does the middleware: nothing is stored
// that would panic at each duplicate.
func TestAStatusThatIsNoneIsNotStored(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 99, 1000} {
		served := 0
		h := handle(t, func(w http.ResponseWriter, _ *http.Request) {
			if served++; served == 1 {
				w.WriteHeader(status)
			}
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: the first request does not panic", status)
				}
			}()
			post(h, "k", "tea")
		}()
		if w := post(h, "k", "tea"); w.Code != http.StatusOK || served != 2 {
			t.Errorf("%d: then %d, served %d times", status, w.Code, served)
		}
	}
}
