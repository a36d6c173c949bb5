// Package httponce makes an HTTP handler serve every Idempotency-Key once:
// duplicates get the response of the first request.
//
// It answers 400 to an invalid key, 409 with Retry-After while the first request is
// being served, 422 if the key comes with another request, and 503 if the store
// cannot be reached or the outcome of the first request is unknown. A response is
// sent when it has been stored, so a handler that streams is buffered. At most 64 KiB
// can be stored, headers and half a KiB of metadata included; a larger response
// reaches its client, and duplicates get 500.
//
// A response is stored if it is an outcome of the request. One that asks for a retry
// is passed on and not stored, so that the client may retry: 401, 407, 408, 421, 423,
// 425, 429, 500 and above, and every other of 400 and above with a Retry-After.
//
// When the client of a request disconnects, the request's context ends, as always.
// What the handler answers then is stored, for the client to ask for; if it answers
// nothing, nothing is stored. A handler that stops in the middle of its answer should
// panic with [http.ErrAbortHandler]: else the part that it wrote is stored as the
// whole response.
//
// Clients choose the keys: with [WithScope] no client can get at the response of
// another. A service whose callers have credentials needs it, to say whose a key is.
// Without it a request with an Authorization, a Cookie or a client certificate is 500
// and not served: a middleware cannot tell who the caller is. A hash of the
// credentials would not do as the scope: a token or cookie that changed between two
// tries would have the request served twice, unnoticed. Callers that are known in
// another way, as by a header of your own, count as one caller. Cookies that a
// response sets go to its own client alone, unless there is a scope.
package httponce

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	err      error // the first option that is invalid
}

// WithScope keeps the keys of different callers apart, by something that is the same in
// all their tries: an account, not a token. Only a hash of it is stored. Callers for whom it is "" share their keys,
// and their responses are stored without cookies. Without this option all callers share
// their keys, and a request with credentials is refused.
func WithScope(of func(*http.Request) string) Option { return func(o *options) { o.scope = of } }

// WithRequiredKey answers 400 to a request that should have a key and has none.
func WithRequiredKey() Option { return func(o *options) { o.required = true } }

// WithMaxBody sets how large a request with a key may be, in bytes; a larger one is
// 413. The default is 1 MiB.
func WithMaxBody(n int64) Option {
	return func(o *options) {
		if n <= 0 {
			o.err = fmt.Errorf("%w: httponce.WithMaxBody(%d): more than 0", pawl.ErrInvalid, n)
		}
		o.maxBody = n
	}
}

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
	case h.o.err != nil:
		http.Error(w, h.o.err.Error(), http.StatusInternalServerError)
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

// credentials reports whether a request has one of the usual kinds of credentials.
func credentials(r *http.Request) bool {
	return len(r.Header.Values("Authorization")) > 0 || len(r.Header.Values("Cookie")) > 0 ||
		r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// keyOf joins scope and key so that no two pairs are equal. Of the scope only a hash is
// stored: it may be a secret, such as a bearer token, and longer than a key may be.
func keyOf(scope, key string) string {
	if scope == "" {
		return "http//" + key
	}
	return fmt.Sprintf("http/%x/%s", sha256.Sum256([]byte(scope)), key)
}

// serve runs the handler and records its response in memory.
func (h *handler) serve(ctx context.Context, r *http.Request, body []byte) (response, error) {
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{header: http.Header{}}
	h.next.ServeHTTP(rec, r)
	if rec.status == 0 && ctx.Err() != nil {
		return response{}, context.Cause(ctx) // the handler stopped because the client has gone
	}
	rec.WriteHeader(http.StatusOK) // if it wrote nothing
	got := response{Status: rec.status, Header: rec.sent, body: rec.body.Bytes()}
	if got.again() {
		return got, errAgain
	}
	return got, nil
}

// delivered reports whether the client whose request was served gets the response in
// spite of err: the handler answered, and no other client will get another answer.
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
		status, text = http.StatusBadRequest, "this "+Header+" is invalid"
	case errors.Is(err, once.ErrTooLarge):
		status, text = http.StatusInternalServerError, "the request was served, but its response was too large to be kept"
	case errors.Is(err, once.ErrUnknownOutcome):
		text = "the outcome of the first request is unknown"
	}
	http.Error(w, text, status)
}
