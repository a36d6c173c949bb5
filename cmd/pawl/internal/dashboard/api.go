package dashboard

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// Headers of /api/v1/locks: the age of the listing in seconds, and whether the store
// is reachable now.
const (
	ageHeader   = "Pawl-Listing-Age"
	storeHeader = "Pawl-Store"
)

// Limits of /api/v1/locks: programs that read it at once, each of which may keep a listing
// in memory, and claims that are encoded at a time.
const (
	maxAnswers    = 8
	claimsPerPart = 256
)

// locks answers with the claims of the last listing, as pawl ls --json prints them.
func (d *Dashboard) locks(w http.ResponseWriter, r *http.Request) {
	s, _ := d.hub.current()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(storeHeader, s.store())
	if s.snap == nil {
		problem := s.problem
		if problem == "" {
			problem = "the store has not been listed yet"
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		writeJSON(w, map[string]string{"error": problem})
		return
	}
	select {
	case d.answers <- struct{}{}:
		defer func() { <-d.answers }()
	default:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		writeJSON(w, map[string]string{"error": "too many programs read the locks at once"})
		return
	}
	lines := slices.Clone(filterLines(s.snap.lines, r.URL.Query().Get("q")))
	slices.SortFunc(lines, func(a, b *line) int { return strings.Compare(a.name, b.name) })
	w.Header().Set(ageHeader, fmt.Sprintf("%.3f", time.Since(s.snap.at).Seconds()))
	writeClaims(w, lines)
}

// writeClaims writes the claims of all lines in parts, each encoded when the one before it
// was read: a slow client costs the server a part, not another copy of the store. One that
// does not read for writeLimit is cut off.
func writeClaims(w http.ResponseWriter, lines []*line) {
	control := http.NewResponseController(w)
	part, before := make([]claimview.Claim, 0, claimsPerPart), "["
	write := func() bool {
		b, err := claimview.ToJSON(part, "  ")
		if err != nil {
			return false
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // without support, WriteTimeout of the server counts
		_, err = w.Write(slices.Concat([]byte(before), bytes.TrimSuffix(b[1:], []byte("\n]\n"))))
		part, before = part[:0], ","
		return err == nil
	}
	for _, l := range lines {
		for ahead, e := range l.entries {
			if part = append(part, claimview.New(e, ahead)); len(part) == claimsPerPart && !write() {
				return
			}
		}
	}
	switch {
	case len(part) > 0 && !write():
	case before == "[":
		_, _ = io.WriteString(w, "[]\n")
	default:
		_, _ = io.WriteString(w, "\n]\n")
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := claimview.ToJSON(v, "  ")
	if err != nil {
		http.Error(w, "cannot be encoded", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b)
}

// health answers 200 while the server serves. The body says how the store stands;
// details only to those who know the password.
func (d *Dashboard) health(w http.ResponseWriter, r *http.Request) {
	s, _ := d.hub.current()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "store %s\n", map[string]string{storeOK: "up", storeAway: "down", storeUnknown: "unknown"}[s.store()])
	if s.store() != storeAway {
		return
	}
	if known, _ := d.checkLogin(r); known {
		fmt.Fprintf(w, "since %s\n%s\n", s.away.UTC().Format(time.RFC3339), text(s.problem))
	}
}
