package keyspace

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// The value of an exclusive hold is
//
//	p1 <id> <try> <token> <limit> <session> <ttl> <since> <note>
//
// HoldPrefix returns the part that identifies the claim, HoldSuffix what follows the
// token. Scripts put the token between them.

// Shared is the value of a hold while claims share the name.
const Shared = "p1 shared"

// HoldPrefix returns how the value of a claim's hold begins. Scripts identify the claim
// by it.
func HoldPrefix(c *driver.Claim) string { return "p1 " + c.ID + " " + strconv.Itoa(c.Try) + " " }

// HoldSuffix returns how the value of a hold ends, with a session's part in the middle.
func HoldSuffix(limit int, session, note string) string {
	return " " + strconv.Itoa(limit) + session + note
}

// SessionPart returns what all holds of a session have in common. ttl is in milliseconds.
func SessionPart(session, ttl string) string { return " " + escapeSession(session) + " " + ttl + " 0 " }

// escapeSession turns a session's ID into one word.
func escapeSession(id string) string {
	if id == "" {
		return "-"
	}
	return url.PathEscape(id)
}

// Session returns the ID of a session from its word in a hold, a record or a message.
func Session(word string) string {
	if word == "-" {
		return ""
	}
	if id, err := url.PathUnescape(word); err == nil {
		return id
	}
	return word
}

// Regexp compiles a pattern when it is first used: a program that links this package
// but does not use Redis need not pay for it.
func Regexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var holdPattern = Regexp(`(?s)^p1 ([0-9a-f]+) (\d+) (\d+) (\d+) (\S+) (\d+) (\d+) (.*)$`)

// ParseHold shows the value of a hold as an entry. Its Since depends on the server's clock
// and is left to the caller: since is the time at which the hold began, in microseconds
// of that clock, 0 if that is unknown. The value of a claim that did not wait has none: its
// token is the time of the grant.
func ParseHold(name, value string, left time.Duration) (x driver.Entry, since int64) {
	m := holdPattern().FindStringSubmatch(value)
	if m == nil {
		return foreignHold(name, value, left), 0
	}
	limit := int(Number(m[4]))
	return driver.Entry{
		Claim:   driver.Claim{ID: m[1], Try: int(Number(m[2])), Name: name, Need: limit, Limit: limit, Note: WithoutEpoch(m[8])},
		Session: Session(m[5]),
		Held:    true,
		Fence:   uint64(Number(m[3])),
		Left:    max(left, 0),
	}, cmp.Or(Number(m[7]), Number(m[3]))
}

// foreignHold shows a hold of another client. Its ID is a digest of the value, by which
// Evict identifies it; the value itself is shown if it is printable.
func foreignHold(name, value string, left time.Duration) driver.Entry {
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

// Number reads digits that a pattern has matched. A number too large for pawl to have
// written is 0.
func Number(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// A node of a quorum stores the epoch of a grant, and the granted token where Confirm
// has replaced it, ahead of the note.
const epochMark = "\x03"

// WithEpoch returns a note with the epoch of its grant.
func WithEpoch(epoch, note string) string { return epochMark + epoch + epochMark + note }

var epochPattern = Regexp("^\x03[0-9]+(,[0-9]+)?\x03")

// WithoutEpoch returns a note as its claim has it.
func WithoutEpoch(note string) string { return note[len(epochPattern().FindString(note)):] }
