// Package dashboard is the web page of pawl serve: who holds what, who waits for
// whom, and what happened to a lock since the server started.
//
// It shows what listings of the store have seen. A claim that came and went between
// two listings is missing, and what is shown may have changed since: nothing may be
// decided by it. It changes nothing in the store unless Options.Evict is set.
//
// One goroutine lists the store, at most once a second, however many browsers look.
// Pages are rendered here; a browser that runs the script gets the new version of
// its page as a server-sent event.
package dashboard

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// A Store is read to be shown. Calls end with their ctx. While the store cannot be
// reached they return errors, and work again when it is back.
type Store interface {
	List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error]
	Line(ctx context.Context, name string) ([]driver.Entry, error)
}

// Options say what is served and to whom.
type Options struct {
	Store   Store
	Shown   string                 // the store's URL without secrets
	Explain func(err error) string // an error of the store in one line, without secrets
	Classes []Class                // for /metrics; the first match counts

	Password       string                  // required of every request but /healthz; empty: none
	WrongPasswords func(client netip.Addr) // is called when an address has sent many wrong passwords; may be nil
	Port           int                     // the port that requests name in Host
	Names          []string                // names of this server, with Port
	Hosts          []string                // further names that requests may give, with any port

	Evict func(ctx context.Context, e driver.Entry) error // nil: no unlock
	Audit func(Unlock)                                    // is called for each attempt to unlock; required with Evict
}

// A Class groups locks in metrics, so that their names do not become labels.
type Class struct {
	Selection claimview.Selection
	Name      string
}

// A Dashboard is the page and what it knows. Run must be called once.
type Dashboard struct {
	o        Options
	hub      *hub
	history  *history
	poller   *poller
	logins   *loginLimit
	streams  chan struct{} // has an element for each stream that is open
	answers  chan struct{} // has an element for each listing that is being sent to a program
	renderer *renderer
	cache    eventCache
	ending   chan struct{} // closed by Run when it returns: the streams end
}

// New returns a dashboard that has seen nothing yet.
func New(o Options) *Dashboard {
	d := &Dashboard{
		o: o, hub: newHub(), history: newHistory(time.Now(), maxSpans, maxSpansOfName),
		logins: newLoginLimit(), streams: make(chan struct{}, maxStreams), answers: make(chan struct{}, maxAnswers), ending: make(chan struct{}),
	}
	d.poller = newPoller(o.Store, o.Explain, d.hub, d.history)
	d.renderer = newRenderer()
	return d
}

// Run lists the store until ctx ends. first is called with the result of the first
// listing. When Run returns, the streams to browsers end.
func (d *Dashboard) Run(ctx context.Context, first func(error)) {
	defer close(d.ending)
	d.poller.run(ctx, first)
}

// Handler serves all pages.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.page(linesView))
	mux.HandleFunc("GET /tree", d.page(treeView))
	mux.HandleFunc("GET /name", d.page(nameView))
	mux.HandleFunc("GET /holder", d.page(holderView))
	mux.HandleFunc("GET /events", d.events)
	mux.HandleFunc("GET /metrics", d.metrics)
	mux.HandleFunc("GET /api/v1/locks", d.locks)
	mux.HandleFunc("GET /healthz", d.health)
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	mux.HandleFunc("POST /unlock", d.unlock)
	mux.HandleFunc("GET /unlock", func(w http.ResponseWriter, _ *http.Request) { // of somebody who reloads the result
		w.Header().Set("Location", "./") // http.Redirect would make it absolute
		w.WriteHeader(http.StatusSeeOther)
	})
	return d.guard(mux)
}
