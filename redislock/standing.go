package redislock

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// The codes of a standing, see lua/enter.lua and lua/look.lua.
const (
	codeGone = iota
	_
	codeWaits
	codeDenied
	codeLimit
	codeStill
)

// errNoReply is what a reply is that no script of ours makes.
var errNoReply = errors.New("redislock: a script replied nothing that makes sense")

// standing makes sense of what enter and look reply: a token, or a standing.
func (s *session) standing(c *driver.Claim, r Reply) (driver.Standing, error) {
	if r.Text != "" {
		token, err := strconv.ParseUint(r.Text, 10, 64)
		if err != nil {
			return driver.Standing{}, fmt.Errorf("redislock: token %q of %q: %w", r.Text, c.Name, err)
		}
		st := driver.Standing{Held: true, Token: token, Valid: s.ttl}
		if !c.Exclusive() {
			st.Ahead = -1 // those who came before hold too, and are not counted
		}
		return st, nil
	}
	if len(r.Array) == 0 {
		return driver.Standing{}, errNoReply
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
		Holder: holder(c.Name, r.Array),
	}
	if r.Array[0].Int == codeWaits {
		st.Valid = s.ttl
	}
	return st, nil
}

// comes is the token with which a claim that waits will hold; 0: r does not say.
func comes(r Reply) uint64 {
	if len(r.Array) < 6 || r.Array[0].Int != codeWaits {
		return 0
	}
	token, _ := strconv.ParseUint(r.Array[len(r.Array)-1].Text, 10, 64)
	return token
}

// holder is who a standing says is in the way.
func holder(name string, a []Reply) *driver.Entry {
	left := millis(a[4].Int)
	if len(a) > 7 {
		if x, ok := shares(name, a[5].Text, a[6].Text, a[7].Text, left); ok {
			return &x
		}
		return nil
	}
	if a[3].Text == "" {
		return nil
	}
	x := holds(name, a[3].Text, left)
	return &x
}

// form is a pattern that is compiled when it is first used.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// holdForm is an exclusive hold of ours, see lua/line.lua.
var holdForm = form(`(?s)^p1 ([0-9a-f]+) (\d+) (\d+) (\d+) (\S+) (\d+) (\d+) (.*)$`)

// holds shows the string of a hold as an entry. now is unknown here, so Since is
// left to since.
func holds(name, value string, left time.Duration) driver.Entry {
	m := holdForm().FindStringSubmatch(value)
	if m == nil {
		return foreign(name, value, left)
	}
	limit := number(m[4])
	return driver.Entry{
		Claim:   driver.Claim{ID: m[1], Try: number(m[2]), Name: name, Need: limit, Limit: limit, Note: unstamped(m[8])},
		Session: unword(m[5]),
		Held:    true,
		Fence:   uint64(count(m[3])),
		Left:    max(left, 0),
	}
}

// sinceOf is when a hold began: its token is the moment of its arrival, which is
// that of its grant unless it had to wait.
func sinceOf(value string) int64 {
	m := holdForm().FindStringSubmatch(value)
	if m == nil {
		return 0
	}
	if at := count(m[7]); at != 0 {
		return at
	}
	return count(m[3])
}

// foreign is another client's hold. Its ID is a digest of the value, by which
// Evict knows it again; the value is shown where it can be.
func foreign(name, value string, left time.Duration) driver.Entry {
	sum := sha1.Sum([]byte(value))
	x := driver.Entry{
		Claim:   driver.Claim{ID: hex.EncodeToString(sum[:]), Try: 1, Name: name, Need: 1, Limit: 1},
		Held:    true,
		Left:    max(left, 0),
		Foreign: true,
	}
	if len(value) <= driver.MaxNote && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl) {
		x.Note = value
	}
	return x
}

// recordForm is one claim of the line, see lua/line.lua.
var recordForm = form(`(?s)^(\d) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d) (\S+) ([^\x02]*)\x02(.*)$`)

// shares shows a claim of the line as an entry.
func shares(name, id, text, now string, left time.Duration) (driver.Entry, bool) {
	m := recordForm().FindStringSubmatch(text)
	if m == nil {
		return driver.Entry{}, false
	}
	x := driver.Entry{
		Claim: driver.Claim{
			ID: id, Try: number(m[3]), Name: name, Need: number(m[5]), Limit: number(m[6]),
			Queue: m[8] == "1", Note: unstamped(m[11]),
		},
		Session: unword(m[9]),
		Held:    m[1] == "1",
		Since:   max(0, micros(count(now)-count(m[2]))),
		Left:    max(left, 0),
	}
	if x.Held { // one that waits has no token to show yet
		x.Fence = uint64(count(m[4]))
	}
	return x, true
}

// number and count read digits that a pattern has found; what is too large for
// them is nothing of ours.
func number(digits string) int { return int(count(digits)) }

func count(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
