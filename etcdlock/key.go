package etcdlock

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// The parts of a key. A TAB ends the name: names have no control characters, so
// what follows can neither be part of one nor reach into another's line.
const (
	lines    = "@line/"
	records  = "@record/"
	nameEnds = "\t"
	lineEnds = "\n" // the byte after nameEnds: where the range of a line ends

	exclusive = "x"
	shared    = "s"
)

// A space is the part of the store that one prefix has for itself.
type space string

// newSpace makes a prefix into a space. A prefix with one of our own words as a
// segment would lie inside another space.
func newSpace(prefix string) (space, error) {
	prefix = strings.Trim(prefix, "/")
	if !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl) {
		return "", errors.New("the prefix is not UTF-8 without control characters")
	}
	if within := "/" + prefix + "/"; strings.Contains(within, "/"+lines) || strings.Contains(within, "/"+records) {
		return "", fmt.Errorf("the prefix has %s or %s in it, which end one", lines[:len(lines)-1], records[:len(records)-1])
	}
	if prefix != "" {
		prefix += "/"
	}
	return space(prefix), nil
}

func (p space) record(key string) string { return string(p) + records + key }

// names is where all names begin that begin with prefix.
func (p space) names(prefix string) string { return string(p) + lines + prefix }

// A span is a range of keys, its end excluded.
type span struct{ from, to string }

// line is the span of all claims of name.
func (p space) line(name string) span {
	n := p.names(name)
	return span{n + nameEnds, n + lineEnds}
}

// holds reports whether key lies in the span.
func (r span) holds(key string) bool { return key >= r.from && key < r.to }

// whole is the span of the exclusive claims of the line r.
func (r span) whole() span { return span{r.from + exclusive, r.from + "y"} }

// parts is the span of the line's claims that are not exclusive.
func (r span) parts() span { return span{r.from + shared, r.from + "t"} }

// of is the span of the parts under one limit.
func (r span) of(limit int) span { return span{r.parted(limit, 0), r.parted(limit+1, 0)} }

// several is that of the parts under one limit that take more than one unit.
func (r span) several(limit int) span { return span{r.parted(limit, 2), r.parted(limit+1, 0)} }

func (r span) parted(limit, need int) string {
	return fmt.Sprintf("%s%s%08x%08x", r.from, shared, limit, need)
}

// claimed is the key of a claim in slot of lease.
func (r span) claimed(c driver.Claim, lease clientv3.LeaseID, slot int) string {
	head := r.from + exclusive
	if !c.Exclusive() {
		head = r.parted(c.Limit, c.Need)
	}
	key := make([]byte, 0, len(head)+20)
	key = hex.AppendEncode(append(key, head...), binary.BigEndian.AppendUint64(nil, uint64(lease)))
	return string(strconv.AppendInt(append(key, '.'), int64(slot), 10))
}

// A mark is one claim as its key alone shows it.
type mark struct {
	key         string
	rev         int64 // create revision: place in line, and token
	need, limit int   // of a shared claim
	whole       bool  // exclusive
}

// errForeign says that a key in a line is not a claim.
type errForeign struct{ key string }

func (e *errForeign) Error() string {
	return fmt.Sprintf("etcdlock: key %q stands in a line and is not pawl's: delete it, or use another prefix", e.key)
}

// markOf reads a key of the line r.
func (r span) markOf(kv *mvccpb.KeyValue) (mark, error) {
	m := mark{key: string(kv.Key), rev: kv.CreateRevision}
	tail, ok := strings.CutPrefix(m.key, r.from)
	var numbers []int64
	switch {
	case !ok:
	case strings.HasPrefix(tail, exclusive):
		m.whole = true
		_, ok = hexes(tail[1:], 16)
	case strings.HasPrefix(tail, shared):
		numbers, ok = hexes(tail[1:], 8, 8, 16)
		if ok {
			m.limit, m.need = int(numbers[0]), int(numbers[1])
			ok = m.need > 0 && m.need < m.limit
		}
	default:
		ok = false
	}
	if !ok {
		return m, &errForeign{m.key}
	}
	return m, nil
}

// hexes reads hexadecimal numbers of given widths, then a dot and a slot.
func hexes(s string, widths ...int) (numbers []int64, ok bool) {
	for _, w := range widths {
		if len(s) < w {
			return nil, false
		}
		n, err := strconv.ParseUint(s[:w], 16, 64)
		if err != nil {
			return nil, false
		}
		numbers, s = append(numbers, int64(n)), s[w:]
	}
	slot, ok := strings.CutPrefix(s, ".")
	if _, err := strconv.ParseUint(slot, 10, 31); err != nil {
		return nil, false
	}
	return numbers, ok
}

// marksOf reads the keys of a reply.
func (r span) marksOf(kvs []*mvccpb.KeyValue) ([]mark, error) {
	marks := make([]mark, 0, len(kvs))
	for _, kv := range kvs {
		m, err := r.markOf(kv)
		if err != nil {
			return nil, err
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// A label is a claim's value: what its key does not say.
type label struct {
	ID      string `json:"id"`
	Try     int    `json:"try"`
	Session string `json:"session"`
	Note    string `json:"note"`
	Need    int    `json:"need"` // of an exclusive claim too, whose key is the same for all limits
	Limit   int    `json:"limit"`
	Queue   bool   `json:"queue"`
	At      int64  `json:"at"` // when it entered, in ms of its client's wall clock; for List alone
}

// labelOf makes the value of a claim. Its bytes are kept with the claim: that
// they are still the same says that the key is still this claim's.
func labelOf(c driver.Claim, session string) string {
	b := make([]byte, 0, 256)
	b = quote(append(b, `{"id":`...), c.ID)
	b = strconv.AppendInt(append(b, `,"try":`...), int64(c.Try), 10)
	b = quote(append(b, `,"session":`...), session)
	b = quote(append(b, `,"note":`...), c.Note)
	b = strconv.AppendInt(append(b, `,"need":`...), int64(c.Need), 10)
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(c.Limit), 10)
	b = strconv.AppendBool(append(b, `,"queue":`...), c.Queue)
	b = strconv.AppendInt(append(b, `,"at":`...), time.Now().UnixMilli(), 10)
	return string(append(b, '}'))
}

// quote appends a string as JSON. Nearly all have nothing to escape, and a label
// is made for every claim.
func quote(b []byte, s string) []byte {
	plain := func(r rune) bool { return r >= ' ' && r < utf8.RuneSelf && r != '"' && r != '\\' }
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	return append(b, text...)
}

// entry reads one claim of the line of name, with its place to be found.
func (r span) entry(name string, kv *mvccpb.KeyValue) (driver.Entry, error) {
	if _, err := r.markOf(kv); err != nil {
		return driver.Entry{}, err
	}
	var l label
	if err := json.Unmarshal(kv.Value, &l); err != nil || l.ID == "" || l.Limit <= 0 || l.Need <= 0 {
		return driver.Entry{}, &errForeign{string(kv.Key)}
	}
	return driver.Entry{
		Claim:   driver.Claim{ID: l.ID, Try: l.Try, Name: name, Need: l.Need, Limit: l.Limit, Queue: l.Queue, Note: l.Note},
		Session: l.Session,
		Since:   max(0, time.Since(time.UnixMilli(l.At))),
	}, nil
}
