package dashboard

import (
	"fmt"
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
	lines := slices.Clone(filterLines(s.snap.lines, r.URL.Query().Get("q")))
	slices.SortFunc(lines, func(a, b *line) int { return strings.Compare(a.name, b.name) })
	var all []claimview.Claim
	for _, l := range lines {
		for ahead, e := range l.entries {
			all = append(all, claimview.New(e, ahead))
		}
	}
	w.Header().Set(ageHeader, fmt.Sprintf("%.3f", time.Since(s.snap.at).Seconds()))
	writeJSON(w, all)
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
	if s.store() == storeAway && d.loggedIn(r) {
		fmt.Fprintf(w, "since %s\n%s\n", s.away.UTC().Format(time.RFC3339), text(s.problem))
	}
}
