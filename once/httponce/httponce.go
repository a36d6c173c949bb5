// Package httponce makes an HTTP handler serve every Idempotency-Key once:
// duplicates get the response of the first request.
//
// It answers 400 to a key that makes no sense, 409 with Retry-After while the first
// request is being served, 422 if the key comes with another request, and 503 if
// the store cannot be reached or the outcome of the first request is unknown.
// Responses of 500 and above are passed on and forgotten, so that the client may
// try again; all others are kept. A response is sent when it has been kept, so a
// handler that streams is buffered.
//
// The context of a request whose client goes away ends, as always. What the handler
// answers then is kept, for the client to ask for; if it answers nothing, nothing is.
// A handler that breaks off in the middle of its answer should panic with
// [http.ErrAbortHandler]: what it has written would be kept as if it were all.
//
// Keys are chosen by clients: with [Scope] one cannot get at another's response.
package httponce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/once"
)

// Header is the request header that carries the key.
const Header = "Idempotency-Key"

// Replayed is the header that marks the response of an earlier request.
const Replayed = "Idempotency-Replayed"

// maxBody is how large a request may be by default.
const maxBody = 1 << 20

// An Option changes the middleware.
type Option func(*options)

type options struct {
	scope    func(*http.Request) string
	required bool
	maxBody  int64
	once     []once.Option
}

// Scope keeps the keys of different callers apart, such as by account. The default
// is that all callers share them.
func Scope(of func(*http.Request) string) Option { return func(o *options) { o.scope = of } }

// Required answers 400 to a request that should have a key and has none.
func Required() Option { return func(o *options) { o.required = true } }

// MaxBody sets how large a request with a key may be, in bytes; a larger one is
// 413. The default is 1 MiB.
func MaxBody(n int64) Option { return func(o *options) { o.maxBody = n } }

// Once sets options of each run, such as [once.Keep] and [once.Hold].
func Once(opts ...once.Option) Option {
	return func(o *options) { o.once = append(o.once, opts...) }
}

// Handler returns next with every key of a POST or PATCH served once. Other
// methods are passed through.
func Handler(c *pawl.Client, next http.Handler, opts ...Option) http.Handler {
	h := &handler{c: c, next: next, o: options{maxBody: maxBody, scope: func(*http.Request) string { return "" }}}
	for _, opt := range opts {
		opt(&h.o)
	}
	return h
}

type handler struct {
	c    *pawl.Client
	next http.Handler
	o    options
}

// A response is what is kept of one.
type response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// errServer is a response that is not kept.
var errServer = errors.New("the handler failed")

// ServeHTTP serves a request, or repeats the response that its key had before.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	keys := r.Header.Values(Header)
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodPatch, len(keys) == 0 && !h.o.required:
		h.next.ServeHTTP(w, r)
		return
	case len(keys) != 1 || keys[0] == "":
		http.Error(w, "exactly one "+Header+" header is required", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the request cannot be read", status)
		return
	}
	payload := fmt.Appendf(nil, "%s %s %d\n", r.Method, r.URL.RequestURI(), len(body))
	run := slices.Concat(h.o.once, []once.Option{once.Payload(append(payload, body...)), once.Wait(0)})
	ran := false
	got, err := once.Do(r.Context(), h.c, h.key(r, keys[0]), func(ctx context.Context) (response, error) {
		ran = true
		return h.serve(ctx, r, body)
	}, run...)
	if ran && got.Status != 0 && delivered(err) {
		err = nil
	}
	if err != nil {
		refuse(w, err)
		return
	}
	send(w, got, !ran)
}

// key joins scope and key so that no two pairs meet: the scope's length comes first.
func (h *handler) key(r *http.Request, key string) string {
	scope := h.o.scope(r)
	return fmt.Sprintf("http/%d/%s/%s", len(scope), scope, key)
}

// serve has the request answered into memory.
func (h *handler) serve(ctx context.Context, r *http.Request, body []byte) (response, error) {
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{header: http.Header{}}
	h.next.ServeHTTP(rec, r)
	if rec.status == 0 && ctx.Err() != nil {
		return response{}, context.Cause(ctx) // it stopped: the empty answer was for nobody
	}
	rec.WriteHeader(http.StatusOK) // if it wrote nothing
	got := response{rec.status, rec.sent, rec.body.Bytes()}
	if got.Status >= 500 {
		return got, errServer
	}
	return got, nil
}

// delivered reports whether the one whose request was served gets its response all
// the same: the handler answered, and nobody else will be told otherwise.
func delivered(err error) bool {
	return errors.Is(err, errServer) && !errors.Is(err, pawl.ErrLost) || errors.Is(err, once.ErrTooLarge)
}

func send(w http.ResponseWriter, got response, replayed bool) {
	for name, values := range got.Header {
		w.Header()[name] = values
	}
	if replayed {
		w.Header().Set(Replayed, "true")
	}
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Body) // a client that has gone asks again
}

// refuse answers a request that was not served.
func refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "try again later"
	switch {
	case errors.Is(err, once.ErrRunning):
		status, text = http.StatusConflict, "a request with this "+Header+" is being served"
		w.Header().Set("Retry-After", "1")
	case errors.Is(err, once.ErrMismatch):
		status, text = http.StatusUnprocessableEntity, "this "+Header+" was used with another request"
	case errors.Is(err, pawl.ErrInvalidName):
		status, text = http.StatusBadRequest, "this "+Header+" makes no sense"
	case errors.Is(err, once.ErrTooLarge):
		status, text = http.StatusInternalServerError, "the request was served, but its response was too large to be kept"
	case errors.Is(err, once.ErrUnknownOutcome):
		text = "the outcome of the first request is unknown"
	}
	http.Error(w, text, status)
}

// A recorder keeps a response in memory.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || status >= 100 && status < 200 { // what is merely informational is not kept
		return
	}
	r.status, r.sent = status, r.header.Clone()
	for name := range r.sent {
		if strings.EqualFold(name, "Date") || strings.EqualFold(name, "Connection") {
			r.sent.Del(name)
		}
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	if _, typed := r.header["Content-Type"]; r.status == 0 && !typed && r.header.Get("Content-Encoding") == "" {
		r.header.Set("Content-Type", http.DetectContentType(b)) // as a server does
	}
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
