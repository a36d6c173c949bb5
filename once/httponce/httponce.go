// Package httponce makes an HTTP handler serve every Idempotency-Key once:
// duplicates get the response of the first request.
//
// It answers 400 to a key that makes no sense, 409 with Retry-After while the first
// request is being served, 422 if the key comes with another request, and 503 if
// the store cannot be reached or the outcome of the first request is unknown.
// A response is sent when it has been kept, so a handler that streams is buffered.
// What can be kept is 64 KiB, headers and half a KiB of notes included; a larger
// response reaches its client, and duplicates get 500.
//
// Kept is what came of the request. A response that says "try again" is passed on and
// forgotten, so that the client may: 401, 407, 408, 421, 423, 425, 429, 500 and above,
// and every other of 400 and above with a Retry-After.
//
// The context of a request whose client goes away ends, as always. What the handler
// answers then is kept, for the client to ask for; if it answers nothing, nothing is.
// A handler that breaks off in the middle of its answer should panic with
// [http.ErrAbortHandler]: what it has written would be kept as if it were all.
//
// Keys are chosen by clients: with [WithScope] one cannot get at another's response. A
// service whose callers have credentials must say by it whose a key is. Without it
// a request with an Authorization, a Cookie or a client's certificate is 500 and not
// served: a middleware cannot tell who the caller is. Were a hash of the credentials
// its scope, a token or a cookie that changed between two tries would have the
// request served twice, and nobody would be told. Callers that are known otherwise,
// as by a header of your own, look to it like one caller. Cookies that a response
// sets go to its own client alone, unless there is a scope.
package httponce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

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

// WithScope keeps the keys of different callers apart, by what stays the same over all
// their tries: an account, not a token. Those for whom it is "" share their keys, and
// what is kept for them has no cookies. Without it all callers do, and one that has
// credentials is refused.
func WithScope(of func(*http.Request) string) Option { return func(o *options) { o.scope = of } }

// WithRequiredKey answers 400 to a request that should have a key and has none.
func WithRequiredKey() Option { return func(o *options) { o.required = true } }

// WithMaxBody sets how large a request with a key may be, in bytes; a larger one is
// 413. The default is 1 MiB.
func WithMaxBody(n int64) Option { return func(o *options) { o.maxBody = n } }

// WithOnceOptions sets options of each run, such as [once.WithKeep] and [once.WithHold].
func WithOnceOptions(opts ...once.Option) Option {
	return func(o *options) { o.once = append(o.once, opts...) }
}

// Handler returns next with every key of a POST or PATCH served once. Other
// methods are passed through.
func Handler(c *pawl.Client, next http.Handler, opts ...Option) http.Handler {
	h := &handler{c: c, next: next, o: options{maxBody: maxBody}}
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
	case h.o.scope == nil && credentials(r):
		http.Error(w, "httponce.WithScope is not set: a request with credentials and an "+Header+" is not served", http.StatusInternalServerError)
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
	run := slices.Concat(h.o.once, []once.Option{once.WithPayload(append(payload, body...)), once.WithWait(0)})
	scope := ""
	if h.o.scope != nil {
		scope = h.o.scope(r)
	}
	var own *response // what the handler answered, if it ran
	kept, err := once.Do(r.Context(), h.c, keyOf(scope, keys[0]), func(ctx context.Context) ([]byte, error) {
		got, err := h.serve(ctx, r, body)
		if got.Status != 0 {
			own = &got
		}
		if err != nil {
			return nil, err
		}
		return got.marshal(scope != "")
	}, run...)
	if own != nil && (err == nil || delivered(err)) {
		own.send(w, false)
		return
	}
	var got response
	if err == nil {
		got, err = parse(kept)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	got.send(w, true)
}

// credentials reports whether a request says who sends it, as far as can be seen.
func credentials(r *http.Request) bool {
	return len(r.Header.Values("Authorization")) > 0 || len(r.Header.Values("Cookie")) > 0 ||
		r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// keyOf joins scope and key so that no two pairs meet: the scope's length comes first.
func keyOf(scope, key string) string { return fmt.Sprintf("http/%d/%s/%s", len(scope), scope, key) }

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
	got := response{Status: rec.status, Header: rec.sent, body: rec.body.Bytes()}
	if got.again() {
		return got, errAgain
	}
	return got, nil
}

// delivered reports whether the one whose request was served gets its response all
// the same: the handler answered, and nobody else will be told otherwise.
func delivered(err error) bool {
	return errors.Is(err, errAgain) && !errors.Is(err, pawl.ErrLost) || errors.Is(err, once.ErrTooLarge)
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
