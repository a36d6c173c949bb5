package httponce

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-go/pawl/once"
)

// A response is one as it is stored: a line of JSON, and the body as it is, which
// JSON would make larger.
type response struct {
	Status int                 `json:"status"`
	Header http.Header         `json:"header"`
	Bytes  map[string][][]byte `json:"bytes,omitempty"` // headers that are not UTF-8, which JSON would alter
	body   []byte
}

// errAgain is the error of a response that is not stored.
var errAgain = errors.New("the response says try again")

// again reports whether a response is not an outcome but asks for a retry: nothing
// was done, or it is not known what.
func (r *response) again() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return r.Status >= 500 || r.Status >= 400 && r.Header.Get("Retry-After") != ""
}

// personal are headers for one client alone. Duplicates of the same client should get
// them, but without a scope the client of a duplicate is not known.
var personal = []string{"Set-Cookie", "Set-Cookie2", "Authentication-Info"}

// marshal returns the response as it is stored.
func (r *response) marshal(scoped bool) ([]byte, error) {
	kept := response{Status: r.Status, Header: r.Header.Clone()}
	if !scoped {
		remove(kept.Header, personal)
	}
	kept.separateBytes()
	head, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte{'\n'}, r.body), nil
}

// separateBytes moves headers that are not UTF-8 to Bytes.
func (r *response) separateBytes() {
	for name, values := range r.Header {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		if r.Bytes == nil {
			r.Bytes = map[string][][]byte{}
		}
		for _, v := range values {
			r.Bytes[name] = append(r.Bytes[name], []byte(v))
		}
		delete(r.Header, name)
	}
}

// parse is the inverse of marshal.
func parse(b []byte) (r response, err error) {
	head, body, ok := bytes.Cut(b, []byte{'\n'})
	if !ok || json.Unmarshal(head, &r) != nil || !validStatus(r.Status) {
		return response{}, fmt.Errorf("%w: not written as a response", once.ErrCodec)
	}
	for name, values := range r.Bytes {
		for _, v := range values {
			r.Header[name] = append(r.Header[name], string(v))
		}
	}
	r.body = body
	return r, nil
}

// validStatus reports whether net/http sends a status; it panics at others.
func validStatus(status int) bool { return status >= 100 && status <= 999 }

func (r *response) send(w http.ResponseWriter, replayed bool) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	if replayed {
		w.Header().Set(Replayed, "true")
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.body) // a client that has gone may ask again
}

// A recorder keeps a response in memory.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

// ofConnection are headers that belong to one connection, or one moment.
var ofConnection = []string{"Connection", "Date", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"}

// WriteHeader records the status. As net/http does it panics at one that cannot be sent: were
// it stored, every duplicate would panic.
func (r *recorder) WriteHeader(status int) {
	if !validStatus(status) {
		panic(fmt.Sprintf("httponce: invalid status %d", status))
	}
	if r.status != 0 || status >= 100 && status < 200 { // informational responses are not stored
		return
	}
	r.status, r.sent = status, r.header.Clone()
	for name, values := range r.header {
		if strings.EqualFold(name, "Connection") { // it names further headers of the connection
			for _, v := range values {
				remove(r.sent, strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c == ' ' }))
			}
		}
	}
	remove(r.sent, ofConnection)
}

// remove deletes headers, whatever case their names are written in.
func remove(h http.Header, names []string) {
	for have := range h {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, have) }) {
			delete(h, have)
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
