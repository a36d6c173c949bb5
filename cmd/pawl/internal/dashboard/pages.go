package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// A view makes the content of one kind of page from a state.
type view struct {
	path  string // of the page
	build func(d *Dashboard, s *state, now time.Time, q url.Values) content
}

var (
	linesView  = view{"/", buildLines}
	nameView   = view{"/name", buildName}
	holderView = view{"/holder", buildHolder}
	treeView   = view{"/tree", buildTree}
)

var views = map[string]view{linesView.path: linesView, treeView.path: treeView, nameView.path: nameView, holderView.path: holderView}

// A page is all of one page.
type page struct {
	Path   string // of the view, for the navigation
	Shown  string // the store
	Query  string // of the filter
	Region region
	Result *result // of an unlock
}

// A region is the part of a page that changes with the store.
type region struct {
	Events  string // where its next versions come from
	Store   string // storeOK, storeAway or storeUnknown
	Shown   string
	Since   string // when the store went away
	SinceAt string // the same, for machines
	Problem string
	Age     string // of the listing in seconds, for machines; empty: there was none
	AgeText string
	Content content
}

// page returns the handler of a view.
func (d *Dashboard) page(v view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.writePage(w, v, r.URL.Query(), nil)
	}
}

func (d *Dashboard) writePage(w http.ResponseWriter, v view, q url.Values, res *result) {
	s, _ := d.hub.current()
	p := page{Path: v.path, Shown: d.o.Shown, Query: text(q.Get("q")), Region: d.region(v, s, q), Result: res}
	b, err := d.renderer.render("page", p)
	if err != nil {
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	status := p.Region.Content.Status
	if res != nil {
		status = res.Status
	}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// region returns what a view shows of a state.
func (d *Dashboard) region(v view, s *state, q url.Values) region {
	now := time.Now()
	r := region{Events: eventsLink(v, q), Store: s.store(), Shown: d.o.Shown, Content: v.build(d, s, now, q)}
	if s.snap != nil {
		age := now.Sub(s.snap.at)
		r.Age, r.AgeText = fmt.Sprintf("%.1f", age.Seconds()), claimview.Brief(age.Round(100*time.Millisecond))
	}
	if !s.away.IsZero() {
		r.Since, r.SinceAt, r.Problem = clockText(s.away), s.away.UTC().Format(time.RFC3339), s.problem
	}
	return r
}

// eventsLink returns the address of a page's stream. As all links it is relative, so that a
// proxy may serve the pages below a path.
func eventsLink(v view, q url.Values) string {
	all := url.Values{"view": {v.path}}
	for _, key := range []string{"q", "from", "name", "session", "minutes"} {
		if value := q.Get(key); value != "" {
			all.Set(key, value)
		}
	}
	return "events?" + all.Encode()
}
