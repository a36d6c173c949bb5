package dashboard

import (
	"bytes"
	"net/http"
	"net/url"
	"time"
)

// Limits of streams. Pages are rendered again after refresh at the latest, so that
// ages go on where listings are rare. A browser that does not read for writeLimit is
// cut off.
const (
	maxStreams = 100
	refresh    = 1100 * time.Millisecond
	heartbeat  = 15 * time.Second
	writeLimit = 10 * time.Second
)

// events sends the region of a page each time the state changes, until the browser
// leaves or the server ends.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	v, ok := views[r.URL.Query().Get("view")]
	if !ok {
		http.Error(w, "no such view", http.StatusBadRequest)
		return
	}
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open; reload this one to see changes", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // to nginx
	if r.Method == http.MethodHead {
		return
	}
	st := &stream{d: d, w: w, control: http.NewResponseController(w), viewer: d.hub.join()}
	defer d.hub.leave(st.viewer)
	st.serve(r, v)
}

// A stream is one browser that looks at one page.
type stream struct {
	d       *Dashboard
	w       http.ResponseWriter
	control *http.ResponseController
	viewer  *viewer
}

func (st *stream) serve(r *http.Request, v view) {
	beat, again := time.NewTicker(heartbeat), time.NewTimer(refresh)
	defer beat.Stop()
	defer again.Stop()
	var last []byte
	for {
		s, changed := st.d.hub.current()
		if event := st.event(s, v, r); !bytes.Equal(event, last) {
			if last = event; !st.send(event) {
				return
			}
		}
		again.Reset(refresh)
		select {
		case <-changed:
		case <-again.C:
		case <-beat.C:
			if !st.send([]byte(": still here\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		case <-st.d.ending:
			return
		}
	}
}

// event returns the event of a state.
func (st *stream) event(s *state, v view, r *http.Request) []byte {
	q := r.URL.Query()
	event, names := st.d.cache.get(s, eventsLink(v, q), func() ([]byte, []string) { return st.d.event(s, v, q) })
	st.d.hub.shows(st.viewer, names)
	return event
}

// event renders a view of a state, and returns the names that it shows.
func (d *Dashboard) event(s *state, v view, q url.Values) (event []byte, names []string) {
	region := d.region(v, s, q)
	html, err := d.renderer.render("region", region)
	if err != nil {
		return []byte(": the page cannot be rendered\n\n"), nil
	}
	// A carriage return would end a line of the event.
	html = bytes.ReplaceAll(html, []byte{'\r'}, []byte("&#13;"))
	var b bytes.Buffer
	b.WriteString("event: region\n")
	for line := range bytes.Lines(html) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			b.WriteString("data: ")
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	b.WriteByte('\n')
	return b.Bytes(), region.Content.names
}

// send reports whether the browser takes what is sent.
func (st *stream) send(b []byte) bool {
	if err := st.control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return false
	}
	if _, err := st.w.Write(b); err != nil {
		return false
	}
	if err := st.control.Flush(); err != nil {
		return false
	}
	return st.control.SetWriteDeadline(time.Time{}) == nil // HTTP/2 ends a stream whose deadline passes, also a quiet one
}
