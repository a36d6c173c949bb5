package kvline

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A line is the claims of one name in order of arrival. It is one value of the store.
type line []claim

// A claim is stored with times of the store's clock and with revisions. Where these are
// the ones of the write that stored it, which are not known before, it says 0.
type claim struct {
	ID      string        `json:"id"`
	Try     int           `json:"try"`
	Need    int           `json:"need"`
	Limit   int           `json:"limit"`
	Queue   bool          `json:"queue,omitempty"`
	Note    string        `json:"note,omitempty"`
	Session string        `json:"session"`
	Engine  string        `json:"engine"` // the address of its notices
	TTL     time.Duration `json:"ttl"`    // in the line: see bySession
	Held    bool          `json:"held,omitempty"`
	Token   uint64        `json:"token,omitempty"` // the revision of the write that entered it
	Since   int64         `json:"since"`           // of its grant, or before of its arrival: for people
	Beat    int64         `json:"beat,omitempty"`  // when it was entered or prolonged in the line
}

// A claim lives as long as its session, whose value says for how long. Earlier versions of
// this package do not know those values: in their lines each claim lives for its TTL after
// its Beat, and they take all claims for such. They write back the fields that they know,
// so a claim that lives by its session is recognised by the address of its engine.
const (
	bySession = "s-"             // begins the addresses of engines whose claims live by their sessions
	helps     = bySession + "h-" // of those too that enter claims for others, and hear notices that come with a write

	// For earlier versions such a claim lives for lineBase and lineFactor TTLs after the last
	// write of the line by a later one. Sessions write it again after half of that.
	lineBase, lineFactor = 10 * time.Minute, 40
)

func lineTTL(ttl time.Duration) time.Duration { return lineBase + lineFactor*ttl }

// bySession reports whether the claim lives as long as its session.
func (c *claim) bySession() bool { return strings.HasPrefix(c.Engine, bySession) }

// ttl returns for how long the claim lives after its last beat.
func (c *claim) ttl() time.Duration {
	if c.bySession() {
		return (c.TTL - lineBase) / lineFactor
	}
	return c.TTL
}

// old reports whether the line has to be written again for clients of old versions, and
// so that the store keeps it.
func (c *claim) old(now time.Time) bool {
	return c.bySession() && now.Sub(time.Unix(0, c.Beat)) > c.TTL/2
}

// unknown is a time that only reading the line again can tell.
const unknown = -1

// stored is how a line is stored.
type stored struct {
	Line line `json:"pawl"`
}

var errForeign = errors.New("its key holds something else, which is left alone")

// read returns the line that a value is.
func read(v Value) (line, error) {
	if v.Data == nil {
		return nil, nil
	}
	var s stored
	if err := json.Unmarshal(v.Data, &s); err != nil || len(s.Line) == 0 {
		return nil, errForeign
	}
	at := int64(unknown)
	if !v.Time.IsZero() {
		at = v.Time.UnixNano()
	}
	s.Line.complement(v.Revision, at)
	return s.Line, nil
}

// complement adds the revision and the time of the write where claims say 0.
func (l line) complement(revision uint64, at int64) {
	for i := range l {
		c := &l[i]
		if c.Token == 0 {
			c.Token = revision
		}
		switch {
		case c.Beat != 0:
		case at == unknown && c.bySession(): // a little earlier does no harm
			c.Beat = c.Since
		default:
			c.Beat = at
		}
	}
}

// write returns the value of a line; nil if no one is in it. Where others wait, it ends
// with the room that the same claims may need later: a store that limits values refuses
// the claim for which there is none, and never a beat or the grant of those in line.
func (l line) write() []byte {
	if len(l) == 0 {
		return nil
	}
	data, err := json.Marshal(stored{l})
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	if len(l) > 1 {
		data = append(data, bytes.Repeat([]byte(" "), l.room())...)
	}
	return data
}

// room returns by how much the value of a line can grow while no claim comes.
func (l line) room() (n int) {
	for _, c := range l {
		if !c.Held {
			n += len(`,"held":true`)
		}
		if c.Token == 0 {
			n += len(`,"token":36028797018963968`)
		}
		if c.Beat == 0 {
			n += len(`,"beat":9223372036854775807`)
		}
	}
	return n
}

// complete reports whether all times are known.
func (l line) complete() bool {
	return !slices.ContainsFunc(l, func(c claim) bool { return c.Beat == unknown })
}

// prolong writes claims that live by their sessions as if anew, where it is time to.
func (l line) prolong(now time.Time) {
	for i := range l {
		if l[i].old(now) {
			l[i].Beat = 0
		}
	}
}

// keep returns for how long the store must keep the line at least.
func (l line) keep() time.Duration {
	if len(l) == 0 {
		return 0
	}
	longest := time.Duration(0)
	for _, c := range l {
		longest = max(longest, c.TTL)
	}
	return 2*longest + 2*time.Second
}

func (c *claim) until() time.Time { return time.Unix(0, c.Beat).Add(c.TTL) }

// expired reports whether the claim has certainly expired by now, as far as the line tells.
func (c *claim) expired(now time.Time) bool {
	return !c.bySession() && c.Beat > 0 && !c.until().After(now)
}

// entry returns the claim as others are shown it. It lives until then.
func (c *claim) entry(name string, now, until time.Time) driver.Entry {
	e := driver.Entry{
		Claim:   driver.Claim{ID: c.ID, Try: c.Try, Name: name, Need: c.Need, Limit: c.Limit, Queue: c.Queue, Note: c.Note},
		Session: c.Session, Held: c.Held,
		Since: max(0, now.Sub(time.Unix(0, c.Since))), Left: max(0, until.Sub(now)),
	}
	if c.Held {
		e.Fence = c.Token
	}
	return e
}

func (l line) entries(name string, now time.Time) []driver.Entry {
	all := make([]driver.Entry, len(l))
	for i := range l {
		all[i] = l[i].entry(name, now, l[i].until())
	}
	return all
}

func (l line) find(id string) int {
	return slices.IndexFunc(l, func(c claim) bool { return c.ID == id })
}

// places are where the claims of a line are, for those who ask for all of them.
type places map[tried]int

type tried struct {
	id  string
	try int
}

func (l line) places() places {
	p := make(places, len(l))
	for i, c := range l {
		p[tried{c.ID, c.Try}] = i
	}
	return p
}

// of returns where a claim is in the same try; -1 if it is not there.
func (p places) of(c *claim) int {
	if i, ok := p[tried{c.ID, c.Try}]; ok {
		return i
	}
	return -1
}

// refuses reports whether a claim cannot be in the line because others share the name within
// another limit.
func (l line) refuses(need, limit int) bool {
	return need < limit && slices.ContainsFunc(l, func(o claim) bool { return o.Need < o.Limit && o.Limit != limit })
}

func (l *line) remove(i int) { *l = slices.Delete(*l, i, i+1) }

// expired reports whether a claim has expired by now.
func (l line) expired(now time.Time) bool {
	return slices.ContainsFunc(l, func(c claim) bool { return c.expired(now) })
}

// unclear reports whether now, which was not asked for at this moment, does not tell if a
// claim has expired: it may have by now, or the clock was set since.
func (l line) unclear(now time.Time) bool {
	now = now.Add(time.Second)
	return l.expired(now) || slices.ContainsFunc(l, func(c claim) bool { return !c.bySession() && c.Beat > now.UnixNano() })
}

// expire ends what has expired.
func (l *line) expire(now time.Time) {
	*l = slices.DeleteFunc(*l, func(c claim) bool { return c.expired(now) })
}

// blocked reports whether a claim that was not there before waits for a single holder.
func (l line) blocked(was line) bool {
	last := len(l) - 1
	return last > 0 && !l[1].Held && was.find(l[last].ID) < 0
}

// grant grants what fits, at a time that is shown to people.
func (l line) grant(now time.Time) {
	for i, n := l.held(), l.fits(); i < n; i++ {
		l[i].Held, l[i].Since = true, now.UnixNano()
	}
}

// fits returns how many claims at the front are held or can be granted.
func (l line) fits() int {
	n := l.held()
	front := l[:n:n].entries("", time.Time{})
	for ; n < len(l); n++ {
		front = append(front, l[n].entry("", time.Time{}, time.Time{}))
		if held, _, _, _ := driver.Place(front, l[n].ID); !held {
			break // nor is anyone behind it
		}
	}
	return n
}

// held returns how many claims at the front are held.
func (l line) held() int {
	n := 0
	for n < len(l) && l[n].Held {
		n++
	}
	return n
}

// near is how many of those in line count as being near the front.
const near = 16

// first returns the claim that is the first to wait.
func (l line) first() string {
	if n := l.held(); n < len(l) {
		return l[n].ID
	}
	return ""
}

// front returns the claims that are held if all of them are granted that can be, the one that
// keeps others out if these can share the name, and from a second batch on more of those
// behind them. In a short line it is all claims.
func (l line) front(batch int) line {
	if len(l) <= near {
		return l
	}
	n := l.fits()
	if n > 0 && l[0].Need < l[0].Limit {
		n++
	}
	return l[:min(n+batch-1, len(l))]
}
