package httponce_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once/httponce"
)

// A shop charges for every request that reaches it.
type shop struct {
	charged atomic.Int64
	fail    atomic.Bool
	during  func()
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if s.during != nil {
		s.during()
	}
	if s.fail.Load() {
		http.Error(w, "out of paper", http.StatusBadGateway)
		return
	}
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s charged %d", body, s.charged.Add(1))
}

func post(h http.Handler, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	if key != "" {
		r.Header.Set(httponce.Header, key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func newShop(t *testing.T, opts ...httponce.Option) (*shop, http.Handler) {
	t.Helper()
	c := pawl.New(memlock.New())
	t.Cleanup(func() { _ = c.Close() })
	s := &shop{}
	return s, httponce.Handler(c, s, opts...)
}

func TestADuplicateGetsTheFirstResponse(t *testing.T) {
	t.Parallel()
	s, h := newShop(t)
	for i := range 3 {
		w := post(h, "k1", "tea")
		replayed := w.Header().Get(httponce.Replayed) != ""
		if w.Code != http.StatusCreated || w.Body.String() != "tea charged 1" || w.Header().Get("Location") != "/orders/1" || replayed != (i > 0) {
			t.Errorf("request %d: %d %q %v", i, w.Code, w.Body, w.Header())
		}
	}
	if w := post(h, "k2", "tea"); w.Body.String() != "tea charged 2" {
		t.Errorf("another key: %q", w.Body)
	}
	if w := post(h, "", "tea"); w.Body.String() != "tea charged 3" || s.charged.Load() != 3 {
		t.Errorf("no key: %q", w.Body)
	}
}

func TestWhatCannotBeServedIsRefusedWithItsCode(t *testing.T) {
	t.Parallel()
	s, h := newShop(t, httponce.WithRequiredKey(), httponce.WithMaxBody(100))
	post(h, "used", "tea")
	var during *httptest.ResponseRecorder
	s.during = func() {
		s.during = nil
		during = post(h, "busy", "tea")
	}
	post(h, "busy", "tea")
	for name, c := range map[string]struct {
		w    *httptest.ResponseRecorder
		code int
	}{
		"while it is being served": {during, http.StatusConflict},
		"another request":          {post(h, "used", "coffee"), http.StatusUnprocessableEntity},
		"no key":                   {post(h, "", "tea"), http.StatusBadRequest},
		"a key of nonsense":        {post(h, "a\x01b", "tea"), http.StatusBadRequest},
		"a large request":          {post(h, "large", strings.Repeat("x", 101)), http.StatusRequestEntityTooLarge},
	} {
		if c.w.Code != c.code {
			t.Errorf("%s: %d, not %d", name, c.w.Code, c.code)
		}
	}
	if during.Header().Get("Retry-After") == "" {
		t.Error("409 without Retry-After")
	}
	if s.charged.Load() != 2 {
		t.Errorf("charged %d times, not twice", s.charged.Load())
	}
}

func TestAServersFailureIsPassedOnAndForgotten(t *testing.T) {
	t.Parallel()
	s, h := newShop(t)
	s.fail.Store(true)
	if w := post(h, "k", "tea"); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "paper") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	s.fail.Store(false)
	if w := post(h, "k", "tea"); w.Code != http.StatusCreated {
		t.Errorf("after a failure: %d %q", w.Code, w.Body)
	}
}

func TestKeysOfDifferentScopesAreApart(t *testing.T) {
	t.Parallel()
	who := "a"
	s, h := newShop(t, httponce.WithScope(func(*http.Request) string { return who }))
	post(h, "b/k", "tea")
	who = "a/b"
	if w := post(h, "k", "tea"); w.Body.String() != "tea charged 2" || s.charged.Load() != 2 {
		t.Errorf("another's response: %q", w.Body)
	}
}

func TestAResponseThatIsTooLargeReachesItsClientAndIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	defer c.Close()
	served := 0
	h := httponce.Handler(c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
	}))
	if w := post(h, "k", ""); w.Code != http.StatusOK || w.Body.Len() != 100<<10 {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
	if w := post(h, "k", ""); w.Code != http.StatusInternalServerError || served != 1 {
		t.Errorf("a duplicate: %d, served %d times", w.Code, served)
	}
}

func TestAHandlersPanicIsPassedOn(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	defer c.Close()
	h := httponce.Handler(c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the panic is %v", err)
		}
	}()
	post(h, "k", "")
}

func ExampleHandler() {
	c := pawl.New(memlock.New())
	defer c.Close()
	charged := 0
	shop := httponce.Handler(c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charged++
		fmt.Fprint(w, "thank you")
	}))
	for range 2 {
		fmt.Println(post(shop, "7f3a", "order 42").Body, charged)
	}
	// Output:
	// thank you 1
	// thank you 1
}

func TestAnInvalidOptionIsToldByTheFirstRequestWithAKey(t *testing.T) {
	c := pawl.New(memlock.New())
	defer c.Close()
	served := 0
	h := httponce.Handler(c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), httponce.WithMaxBody(-1))
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set(httponce.Header, "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "WithMaxBody(-1)") || served != 0 {
		t.Errorf("%d %q, served %d times", w.Code, w.Body, served)
	}
}
