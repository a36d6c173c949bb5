package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A line is the claims of one name as they were read at one moment. It is not
// changed afterwards.
type line struct {
	name    string
	entries []driver.Entry
	full    []time.Duration // of each entry: the longest lease that was seen of this claim
	read    time.Time
	waiting int
	waited  time.Duration // the sum of the waiters' ages
}

// newLine makes a line of entries that were read at a moment. before is the same
// line as it was read earlier, or nil.
func newLine(name string, entries []driver.Entry, read time.Time, before *line) *line {
	l := &line{name: name, entries: entries, full: make([]time.Duration, len(entries)), read: read}
	find := before.finder()
	for i, e := range entries {
		l.full[i] = e.Left
		if at := find(e.ID); at >= 0 {
			l.full[i] = max(e.Left, before.full[at])
		}
		if !e.Held {
			l.waiting++
			l.waited += e.Since
		}
	}
	return l
}

// finder returns a function that returns the index of a claim; -1 if it is not in line.
// l may be nil. Long lines get an index: to search each claim of one line in another
// would take seconds with 20 000 claims.
func (l *line) finder() func(id string) int {
	switch {
	case l == nil:
		return func(string) int { return -1 }
	case len(l.entries) <= 8:
		return func(id string) int {
			return slices.IndexFunc(l.entries, func(e driver.Entry) bool { return e.ID == id })
		}
	}
	index := make(map[string]int, len(l.entries))
	for i := range l.entries {
		index[l.entries[i].ID] = i
	}
	return func(id string) int {
		if at, ok := index[id]; ok {
			return at
		}
		return -1
	}
}

// same reports whether two readings show the same claims in the same states.
func (l *line) same(other *line) bool {
	return other != nil && slices.EqualFunc(l.entries, other.entries, func(a, b driver.Entry) bool {
		return a.ID == b.ID && a.Held == b.Held && a.Fence == b.Fence
	})
}

// A snapshot is all lines. It is not changed once it is published.
type snapshot struct {
	at     time.Time // when the listing ended
	byName map[string]*line
	lines  []*line // by the waiting that their holders cause, then by name

	sessionsOnce sync.Once
	sessions     map[string][]place
	graphOnce    sync.Once
	graph        *graph
}

// A place is one claim in its line.
type place struct {
	line *line
	at   int
}

func (p place) entry() driver.Entry { return p.line.entries[p.at] }

func newSnapshot(at time.Time, byName map[string]*line) *snapshot {
	s := &snapshot{at: at, byName: byName, lines: make([]*line, 0, len(byName))}
	for _, l := range byName {
		s.lines = append(s.lines, l)
	}
	slices.SortFunc(s.lines, func(a, b *line) int {
		return cmp.Or(cmp.Compare(b.waited, a.waited), strings.Compare(a.name, b.name))
	})
	return s
}

// line returns the line of a name, or nil; s may be nil.
func (s *snapshot) line(name string) *line {
	if s == nil {
		return nil
	}
	return s.byName[name]
}

// counts returns how many claims are held and how many wait.
func (s *snapshot) counts() (held, waiting int) {
	for _, l := range s.lines {
		waiting += l.waiting
		held += len(l.entries) - l.waiting
	}
	return held, waiting
}

// of returns the claims of a session, by name.
func (s *snapshot) of(session string) []place {
	s.sessionsOnce.Do(func() {
		s.sessions = map[string][]place{}
		for _, l := range s.lines {
			for i := range l.entries {
				key := sessionOf(l.entries[i])
				s.sessions[key] = append(s.sessions[key], place{l, i})
			}
		}
	})
	return s.sessions[session]
}

// sessionOf returns what identifies the client of a claim. A hold of another program
// has no session and stands for itself.
func sessionOf(e driver.Entry) string {
	if e.Session != "" {
		return e.Session
	}
	return "claim " + e.ID
}

// A state is what the pages show: the last listing, and how the store stands. It is
// not changed once it is published.
type state struct {
	snap     *snapshot // nil: there never was a listing
	away     time.Time // when listings began to fail; zero: the last one worked
	problem  string    // why, if away is set
	took     time.Duration
	interval time.Duration // between two listings
	listings int
	failures int
}

// Words for how the store stands, also in data-state.
const (
	storeOK      = "ok"
	storeAway    = "away"
	storeUnknown = "unknown"
)

func (s *state) store() string {
	switch {
	case !s.away.IsZero():
		return storeAway
	case s.snap == nil:
		return storeUnknown
	}
	return storeOK
}

// clock returns the time that ages are computed for: now, or while the store is away
// the time of the last listing, so that ages stand still.
func (s *state) clock(now time.Time) time.Time {
	if s.snap != nil && !s.away.IsZero() {
		return s.snap.at
	}
	return now
}
