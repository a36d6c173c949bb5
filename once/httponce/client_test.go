package httponce_test

import (
	"bytes"
	"compress/gzip"
	"context"
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

// serve puts a handler behind a real server.
func serve(t *testing.T, h http.HandlerFunc, opts ...httponce.Option) *httptest.Server {
	t.Helper()
	c := pawl.New(memlock.New())
	t.Cleanup(func() { _ = c.Close() })
	s := httptest.NewServer(httponce.Handler(c, h, opts...))
	t.Cleanup(s.Close)
	return s
}

// line is a way to the servers that no server closes when it ends, and that undoes no
// compression.
var line = &http.Transport{DisableCompression: true, DisableKeepAlives: true}

// send sends an order with a key, and returns the answer with its body read.
func send(ctx context.Context, url, key string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("tea"))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set(httponce.Header, key)
	w, err := line.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return w, string(b), err
}

// A handler whose client goes away stops, as handlers do, and answers nothing: that is
// no answer to give to the client when it asks again.
func TestNoAnswerToAClientThatWentAwayIsNotKept(t *testing.T) {
	t.Parallel()
	started, stopped := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			close(started)
			<-r.Context().Done()
			close(stopped)
			return
		}
		_, _ = io.WriteString(w, "charged")
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { // ends with ctx
		_, _, err := send(ctx, s.URL, "k")
		gone <- err
	}()
	<-started
	cancel()
	<-stopped
	if err := <-gone; err == nil {
		t.Fatal("the client did not go away")
	}
	for {
		w, body, err := send(t.Context(), s.URL, "k")
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode == http.StatusConflict { // the first is about to end
			continue
		}
		if w.StatusCode != http.StatusOK || body != "charged" {
			t.Errorf("the client asks again and gets %d %q", w.StatusCode, body)
		}
		return
	}
}

// A handler that finishes all the same has done its work: its answer is kept.
func TestAnAnswerToAClientThatWentAwayIsKept(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	var calls atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			close(started)
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "charged")
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { // ends with ctx
		_, _, _ = send(ctx, s.URL, "k")
		close(gone)
	}()
	<-started
	cancel()
	<-gone
	for {
		w, body, err := send(t.Context(), s.URL, "k")
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode == http.StatusConflict { // the first is about to end
			continue
		}
		if body != "charged" || w.Header.Get(httponce.Replayed) == "" || calls.Load() != 1 {
			t.Errorf("%d %q after %d calls", w.StatusCode, body, calls.Load())
		}
		return
	}
}

// What the first client and the others get is what the handler alone would send.
func TestHeadersAreThoseOfTheHandler(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, "<html>tea</html>")
	_ = z.Close()
	for name, h := range map[string]http.HandlerFunc{
		"sniffed": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>tea</html>") },
		"sniffed after its status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "<html>tea</html>")
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		},
		"without a type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>tea</html>")
		},
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"no body":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"cookies":  func(w http.ResponseWriter, _ *http.Request) { w.Header()["Set-Cookie"] = []string{"a=1", "b=2"} },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusSeeOther) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := httptest.NewServer(h)
			defer alone.Close()
			want, wantBody, err := send(t.Context(), alone.URL, "k")
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, h, httponce.WithScope(func(*http.Request) string { return "ana" })) // without one, cookies go to the first alone
			for _, which := range []string{"the first", "a duplicate"} {
				got, body, err := send(t.Context(), s.URL, "k")
				if err != nil {
					t.Fatal(err)
				}
				if got.StatusCode != want.StatusCode || body != wantBody {
					t.Errorf("%s gets %d %q, not %d %q", which, got.StatusCode, body, want.StatusCode, wantBody)
				}
				for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Set-Cookie", "Location"} {
					if g, w := strings.Join(got.Header.Values(name), ";"), strings.Join(want.Header.Values(name), ";"); g != w {
						t.Errorf("%s gets %s %q, not %q", which, name, g, w)
					}
				}
			}
		})
	}
}
