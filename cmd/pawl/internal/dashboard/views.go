package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/election"
)

// How much one page shows, at most.
const (
	rowsPerPage     = 100
	claimsPerRow    = 12
	claimsPerName   = 500
	claimsPerHolder = 500
	maxBrief        = 80 // characters of a note where many are shown
	lookedAt        = 20 // rows of a page whose names are read between listings
)

// A content is what one page shows. Its strings have no hidden characters, except
// those that become part of a link.
type content struct {
	Template string // of Body
	Title    string
	Status   int
	Body     any
	names    []string // what is looked at, the most important first
}

// A claimRow is one claim of a page.
type claimRow struct {
	ID      string
	Name    string // for links
	Title   string
	Session string // for links; empty if there is none
	Key     string // of the claim on this page
	Who     string
	Reason  string
	Mode    string
	Permits int // if it is more than one
	State   string
	Token   string
	Place   int // in line, from 1, of those that wait
	Age     string
	Left    string
	Percent string // the lease that is left, of the longest that was seen
	Low     bool   // little of it is left
	Foreign bool
}

// newClaimRow shows a claim as it is by the clock, which may be later than it was
// read.
func newClaimRow(p place, clock time.Time) claimRow {
	e := p.entry()
	elapsed := max(0, clock.Sub(p.line.read))
	e.Since += elapsed
	e.Left = max(0, e.Left-elapsed)
	v := claimview.New(e, p.at)
	r := claimRow{
		ID: text(e.ID), Name: e.Name, Title: v.Title(), Session: e.Session, Key: text(e.Name + " " + e.ID),
		Who: text(v.Who()), Mode: v.ModeShown(), State: v.State, Age: claimview.Brief(e.Since), Foreign: e.Foreign,
	}
	if v.Holder != "" {
		r.Reason = text(v.Reason)
	}
	if v.Foreign {
		r.Who = "another program"
	}
	if v.Need > 1 {
		r.Permits = v.Need
	}
	if e.Held {
		r.Token = v.Token.String()
	} else {
		r.Place = max(1, p.at-holdersAhead(p)+1)
	}
	if full := p.line.full[p.at]; full > 0 {
		share := float64(e.Left) / float64(full)
		r.Percent, r.Low, r.Left = fmt.Sprintf("%.1f%%", 100*share), share < 0.2, claimview.Brief(e.Left)
	}
	return r
}

// brief returns the row for a page of many names. Notes may have a kilobyte each; the
// page of the name shows them whole.
func (r claimRow) brief() claimRow {
	r.Who, r.Reason = shorten(r.Who, maxBrief), shorten(r.Reason, maxBrief)
	return r
}

func holdersAhead(p place) (n int) {
	for _, e := range p.line.entries[:p.at] {
		if e.Held {
			n++
		}
	}
	return n
}

// text returns a string of other people without hidden characters.
func text(s string) string { return claimview.EscapeHidden(s) }

// A lineRow is one name of a page, with its claims.
type lineRow struct {
	Name        string // for links
	Key         string
	Title       string
	Election    bool
	Mode        string // of the first claim; of a semaphore, the permits that are held
	Holders     []claimRow
	Waiters     []claimRow
	MoreHolders int
	MoreWaiters int
	Caused      string // the waiting that the holder causes
}

func newLineRow(l *line, clock time.Time, most int) lineRow {
	first := claimview.New(l.entries[0], 0)
	r := lineRow{Name: l.name, Key: claimview.ShownName(l.name), Title: first.Title(), Election: first.Election != "", Mode: first.ModeShown()}
	permits := 0
	for at, e := range l.entries {
		if e.Held {
			permits += e.Need
		}
		switch p := (place{l, at}); {
		case e.Held && len(r.Holders) < most:
			r.Holders = append(r.Holders, newClaimRow(p, clock))
		case e.Held:
			r.MoreHolders++
		case len(r.Waiters) < most:
			r.Waiters = append(r.Waiters, newClaimRow(p, clock))
		default:
			r.MoreWaiters++
		}
	}
	if first.Mode == "permits" {
		r.Mode = fmt.Sprintf("%d of %d", permits, first.Limit)
	}
	if l.waiting > 0 {
		r.Caused = claimview.Brief(l.waited + time.Duration(l.waiting)*max(0, clock.Sub(l.read)))
	}
	return r
}

// linesBody is the page of all lines.
type linesBody struct {
	Rows           []lineRow
	Query          string
	Held, Waiting  int
	Names, Matches int
	First, Last    int // the rows of this page, from 1
	Previous, Next string
}

func buildLines(_ *Dashboard, s *state, now time.Time, q url.Values) content {
	b := linesBody{Query: q.Get("q")}
	c := content{Template: "lines", Title: "Lines", Status: http.StatusOK}
	if s.snap != nil {
		from, _ := strconv.Atoi(q.Get("from"))
		matches := filterLines(s.snap.lines, b.Query)
		from = min(max(0, from), max(0, len(matches)-1)/rowsPerPage*rowsPerPage) // the last page, if there are fewer now
		b.Names, b.Matches = len(s.snap.lines), len(matches)
		b.Held, b.Waiting = s.snap.counts()
		for i, l := range matches[from:min(from+rowsPerPage, len(matches))] {
			row := newLineRow(l, s.clock(now), claimsPerRow)
			for _, claims := range [][]claimRow{row.Holders, row.Waiters} {
				for i := range claims {
					claims[i] = claims[i].brief()
				}
			}
			b.Rows = append(b.Rows, row)
			if i < lookedAt {
				c.names = append(c.names, l.name)
			}
		}
		b.First, b.Last = min(from+1, len(matches)), min(from+rowsPerPage, len(matches))
		if from > 0 {
			b.Previous = linesLink(b.Query, max(0, from-rowsPerPage))
		}
		if from+rowsPerPage < len(matches) {
			b.Next = linesLink(b.Query, from+rowsPerPage)
		}
	}
	b.Query = text(b.Query)
	c.Body = b
	return c
}

func linesLink(query string, from int) string {
	q := url.Values{}
	if query != "" {
		q.Set("q", query)
	}
	if from > 0 {
		q.Set("from", strconv.Itoa(from))
	}
	return "./?" + q.Encode()
}

// filterLines returns the lines whose names match a pattern as in pawl ls, or contain
// the query.
func filterLines(lines []*line, query string) []*line {
	if query == "" {
		return lines
	}
	wants := matcher(query)
	var matches []*line
	for _, l := range lines {
		if wants(l.name) {
			matches = append(matches, l)
		}
	}
	return matches
}

// matcher returns the meaning of a query: a pattern, or a part of a name in either
// case of letters.
func matcher(query string) func(name string) bool {
	pattern, err := claimview.Pattern(query)
	part := strings.ToLower(query)
	return func(name string) bool {
		if err == nil && pattern.Wants(name) {
			return true
		}
		if own, ok := election.NameOfLock(name); ok {
			name = own
		}
		return strings.Contains(strings.ToLower(name), part)
	}
}

// holderBody is the page of one session.
type holderBody struct {
	Who     string
	Session string
	Held    []claimRow
	Waiting []claimRow
	More    int
}

func buildHolder(_ *Dashboard, s *state, now time.Time, q url.Values) content {
	session := q.Get("session")
	c := content{Template: "holder", Title: "Holder", Status: http.StatusOK}
	if session == "" {
		return missing("This page needs a session.")
	}
	b := holderBody{Session: text(session)}
	if s.snap != nil {
		for i, p := range s.snap.of(session) {
			if i >= claimsPerHolder {
				b.More++
				continue
			}
			r := newClaimRow(p, s.clock(now))
			if b.Who = cmp.Or(b.Who, r.Who); r.State == "held" {
				b.Held = append(b.Held, r)
			} else {
				b.Waiting = append(b.Waiting, r)
			}
			if i < lookedAt {
				c.names = append(c.names, p.line.name)
			}
		}
	}
	if b.Who != "" {
		c.Title = b.Who
	}
	c.Body = b
	return c
}

// missing is the content of a page without the parameter that it needs.
func missing(what string) content {
	return content{Template: "missing", Title: "Nothing to show", Status: http.StatusBadRequest, Body: what}
}
