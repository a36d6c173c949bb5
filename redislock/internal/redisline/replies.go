package redisline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// The first element of a standing, see enter.lua and look.lua.
const (
	codeGone  = 0
	codeWaits = 2
	codeLimit = 4
	codeStill = 5
	codeAgain = 8
)

// The only element, or for codeEpoch the first, of the reply of a node that did not
// vote, see quorum.lua and quorum_enter.lua. A standing with codeStill is longer.
const (
	codeSilent      = 5
	codeEpoch       = 6
	codeOtherServer = 7
)

var errBadReply = errors.New("redislock: a script replied something unexpected")

// standing reads the reply of enter and look: a token, or a standing.
func (s *session) standing(c *driver.Claim, r redisclient.Reply) (driver.Standing, error) {
	if r.Text != "" {
		token, err := strconv.ParseUint(r.Text, 10, 64)
		if err != nil {
			return driver.Standing{}, fmt.Errorf("redislock: token %q of %q: %w", r.Text, c.Name, err)
		}
		st := driver.Standing{Held: true, Token: token, Valid: s.ttl}
		if !c.Exclusive() {
			st.Ahead = -1 // earlier claims hold too, and are not counted
		}
		return st, nil
	}
	if len(r.Array) == 0 {
		return driver.Standing{}, errBadReply
	}
	switch r.Array[0].Int {
	case codeGone:
		return driver.Standing{Gone: true}, nil
	case codeLimit:
		return driver.Standing{}, driver.ErrLimit
	case codeStill:
		return driver.Standing{Ahead: -1, Valid: s.ttl}, nil
	}
	st := driver.Standing{
		Ahead:  int(r.Array[1].Int),
		Pause:  max(millis(r.Array[2].Int), time.Millisecond),
		Holder: blocker(c.Name, r.Array),
	}
	if r.Array[0].Int == codeWaits {
		st.Valid = s.ttl
	}
	return st, nil
}

// arrival returns the number of a waiting claim's arrival in the line; 0 if r does not
// contain it.
func arrival(r redisclient.Reply) uint64 {
	if len(r.Array) < 6 || r.Array[0].Int != codeWaits {
		return 0
	}
	number, _ := strconv.ParseUint(r.Array[len(r.Array)-1].Text, 10, 64)
	return number
}

// blocker returns the claim that blocks, as a standing shows it.
func blocker(name string, a []redisclient.Reply) *driver.Entry {
	left := millis(a[4].Int)
	if len(a) > 7 {
		if r, ok := parseRecord(name, a[5].Text, a[6].Text, a[7].Text, left); ok {
			return &r.Entry
		}
		return nil
	}
	if a[3].Text == "" {
		return nil
	}
	x, _ := keyspace.ParseHold(name, a[3].Text, left)
	return &x
}

// A lineReader collects the replies of list.lua for one name. What the first one says of
// the exclusive hold stands: a claim that got it since is shown where it was.
type lineReader struct {
	name    string
	started bool
	holder  []driver.Entry // none, or one
	byID    map[string]record
}

func newLineReader(name string) *lineReader {
	return &lineReader{name: name, byID: map[string]record{}}
}

// read adds a reply. It returns where the next part begins, "" if this was the last one, and
// how many claims to ask for: those that begin there have been seen. A part of which all have
// been seen is not the last one: a beat has prolonged them, and claims of sessions with a
// longer TTL may follow.
func (l *lineReader) read(r redisclient.Reply) (next string, n int) {
	a := r.Array
	if len(a) < 5 {
		return "", 0
	}
	value, now := a[0].Text, a[2].Text
	if !l.started && value != "" && value != keyspace.Shared {
		x, since := keyspace.ParseHold(l.name, value, millis(a[1].Int))
		if !x.Foreign {
			x.Since = max(0, micros(keyspace.Number(now)-since))
		}
		l.holder = []driver.Entry{x}
	}
	for rest := a[5:]; len(rest) >= 3; rest = rest[3:] {
		id := rest[0].Text
		if _, seen := l.byID[id]; seen || len(l.holder) > 0 && l.holder[0].ID == id {
			continue
		}
		if r, ok := parseRecord(l.name, id, rest[1].Text, now, millis(rest[2].Int)); ok {
			l.byID[id] = r
		}
	}
	l.started = true
	return a[3].Text, listPart + int(a[4].Int)
}

// entries returns the claims in the line's order, which is holders and then waiters, each by
// arrival.
func (l *lineReader) entries() []driver.Entry {
	records := slices.SortedFunc(maps.Values(l.byID), func(x, y record) int {
		if x.Held != y.Held {
			return cmp.Compare(flag(y.Held), flag(x.Held))
		}
		return cmp.Compare(x.token, y.token)
	})
	all := l.holder
	for _, r := range records {
		all = append(all, r.Entry)
	}
	return all
}

// A record is one claim of the line's hash, see line.lua.
type record struct {
	driver.Entry
	token int64 // of a claim that waits the number of its arrival, which its entry does not show
}

var recordPattern = keyspace.Regexp(`(?s)^(\d) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d) (\S+) ([^\x02]*)\x02(.*)$`)

func parseRecord(name, id, text, now string, left time.Duration) (record, bool) {
	m := recordPattern().FindStringSubmatch(text)
	if m == nil {
		return record{}, false
	}
	number := keyspace.Number
	r := record{token: number(m[4]), Entry: driver.Entry{
		Claim: driver.Claim{
			ID: id, Try: int(number(m[3])), Name: name, Need: int(number(m[5])), Limit: int(number(m[6])),
			Queue: m[8] == "1", Note: keyspace.WithoutEpoch(m[11]),
		},
		Session: keyspace.Session(m[9]),
		Held:    m[1] == "1",
		Since:   max(0, micros(number(now)-number(m[2]))),
		Left:    max(left, 0),
	}}
	if r.Held {
		r.Fence = uint64(r.token)
	}
	return r, true
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
