package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/election"
)

// nameBody is the page of one name.
type nameBody struct {
	Name     string // for the form
	Title    string
	Lock     string // the lock behind an election
	Election string // for a link: the lock of the election of the same name
	Row      *lineRow
	Timeline timeline
	Unlock   bool // the form is shown
	Interval string
}

func buildName(d *Dashboard, s *state, now time.Time, q url.Values) content {
	name := q.Get("name")
	if name == "" {
		return missing("This page needs a name.")
	}
	b := nameBody{Name: name, Title: claimview.ShownName(name), Interval: claimview.Brief(max(listInterval, s.interval))}
	if own, ok := election.NameOfLock(name); ok {
		b.Title, b.Lock = claimview.ShownName(own), claimview.ShownName(name)
	}
	var current *line
	if s.snap != nil {
		current = s.snap.byName[name]
		if lock := claimview.ElectionLock(name); b.Lock == "" && lock != "" && s.snap.byName[lock] != nil {
			b.Election = lock
		}
	}
	if current != nil {
		row := newLineRow(current, s.clock(now), claimsPerName)
		b.Row = &row
		b.Unlock = d.o.Evict != nil && len(row.Holders) > 0
	}
	minutes, _ := strconv.Atoi(q.Get("minutes"))
	b.Timeline = newTimeline(d.history, name, current, s.clock(now), time.Duration(max(0, minutes))*time.Minute)
	return content{Template: "name", Title: b.Title, Status: http.StatusOK, Body: b, names: []string{name}}
}
