package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/election"
)

// unlockLimit bounds the calls of one unlock; maxForm is larger than any form.
const (
	unlockLimit = 10 * time.Second
	maxForm     = 16 << 10
)

// An Unlock is an attempt to break a lock, for the audit.
type Unlock struct {
	Remote string // the address of the browser
	User   string // as it logged in, or the name in its certificate; not verified without one
	Name   string
	Token  string
	Entry  *driver.Entry // the claim that was broken, if one was
	Result string

	Unknown bool // the store was asked to break it and did not answer: it may be broken
}

// A result is what the page says about an attempt.
type result struct {
	OK     bool
	Status int
	Text   string
}

// Results of an attempt that did nothing.
var (
	errTyped   = errors.New("that is not its name; nothing was done")
	errToken   = errors.New("that is not a token; nothing was done")
	errFree    = errors.New("nobody holds it; nothing was done")
	errChanged = errors.New("it has changed hands; nothing was done")
)

// unlock breaks the hold that the form shows, if it is still that one.
func (d *Dashboard) unlock(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if d.o.Evict == nil {
		http.Error(w, "this server only shows locks; start it with --allow-unlock", http.StatusForbidden)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, "not a form", http.StatusBadRequest)
		return
	}
	form := r.PostForm
	name := form.Get("lock")
	if name == "" {
		name = form.Get("name")
	}
	attempt := Unlock{Remote: r.RemoteAddr, User: userOf(r), Name: name, Token: form.Get("token")}
	// A browser that leaves does not end it: the audit has to say what was done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), unlockLimit)
	defer cancel()
	e, err := d.evict(ctx, name, form)
	res := &result{OK: err == nil, Status: http.StatusOK, Text: "Broken: " + claimview.ShownName(name) + " was taken from its holder."}
	attempt.Result = "done"
	if err == nil {
		attempt.Entry = &e
	} else {
		attempt.Result = d.describe(err)
		if attempt.Unknown = e.ID != "" && errors.Is(err, pawl.ErrUnreachable); attempt.Unknown {
			attempt.Result = "it may be broken: " + attempt.Result
		}
		res.Status, res.Text = statusOf(err), claimview.ShownName(name)+": "+attempt.Result
	}
	d.o.Audit(attempt)
	d.writePage(w, nameView, url.Values{"name": {name}}, res)
}

// evict checks what was typed, finds the holder with the token, and evicts it. It returns
// the claim that the store was asked to evict, if it was.
func (d *Dashboard) evict(ctx context.Context, name string, form url.Values) (driver.Entry, error) {
	if !confirms(form.Get("name"), name) {
		return driver.Entry{}, errTyped
	}
	token, err := strconv.ParseUint(form.Get("token"), 10, 64)
	if err != nil {
		return driver.Entry{}, errToken
	}
	line, err := d.o.Store.Line(ctx, name)
	if err != nil {
		return driver.Entry{}, err
	}
	err = errFree
	for _, e := range line {
		if !e.Held {
			continue
		}
		err = errChanged
		// Holds of other programs have no token: those are told apart by their ID.
		if id := form.Get("id"); e.Fence != token>>8 || id != e.ID && (id != "" || e.Fence == 0) {
			continue
		}
		if err = d.o.Evict(ctx, e); errors.Is(err, pawl.ErrNotHeld) {
			err = errChanged
		}
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: no answer for %v", pawl.ErrUnreachable, unlockLimit)
		}
		return e, err
	}
	return driver.Entry{}, err
}

// confirms reports whether what was typed is the name, or the name as it is shown:
// hidden characters can hardly be typed.
func confirms(typed, name string) bool {
	if own, ok := election.NameOfLock(name); ok && (typed == own || typed == claimview.ShownName(own)) {
		return true
	}
	return typed != "" && (typed == name || typed == claimview.ShownName(name))
}

func (d *Dashboard) describe(err error) string {
	switch err {
	case errTyped, errToken, errFree, errChanged:
		return err.Error()
	}
	return d.o.Explain(err)
}

func statusOf(err error) int {
	switch err {
	case errTyped, errToken:
		return http.StatusBadRequest
	case errFree, errChanged:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// userOf returns who sent a request: the name in the client's certificate, or what
// was given with the password.
func userOf(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	user, _, _ := r.BasicAuth()
	return strings.TrimSpace(user)
}
