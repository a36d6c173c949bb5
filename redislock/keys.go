package redislock

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// mark stands in every key that is not a hold, right behind the prefix. It is a
// control character, which neither a name nor a prefix has, so that no such key
// can be the hold of a name.
const mark = "\x01"

// layout says what the keys of a namespace are called. In a cluster all keys of
// one name must be in one slot, and the hold's own key is not ours to shape; so
// the others carry a hash tag that leads to its slot.
type layout struct {
	prefix  string
	cluster bool
	alone   struct{ fence, channel string } // for all names, where there are no slots
}

func newLayout(prefix, engine string, cluster bool) layout {
	l := layout{prefix: prefix, cluster: cluster}
	l.alone.fence, l.alone.channel = prefix+mark+"f", prefix+mark+"c"+engine
	return l
}

// check reports a prefix that no keys can be made with.
func (l layout) check() error {
	if strings.ContainsFunc(l.prefix, unicode.IsControl) || !utf8.ValidString(l.prefix) {
		return errors.New("redislock: the prefix is not UTF-8 without control characters")
	}
	if l.cluster && strings.Contains(l.prefix, "{") && hashed(l.prefix+"x") == l.prefix+"x" {
		return errors.New("redislock: the prefix begins a hash tag that it does not end")
	}
	return nil
}

// A place is the keys of one name, see lua/line.lua.
type place struct {
	hold         string // the key of the plain recipe
	line         string // of those who wait for the name or share it
	waits, lives string // the sets beside the line
}

// place makes all keys at once: every lock needs them.
func (l layout) place(name string) place {
	tag := l.tag(name)
	all := l.prefix + name + l.prefix + mark + tag + "h" + name + mark + "w" + l.prefix + mark + tag + "h" + name + mark + "l"
	n := len(l.prefix) + len(name)
	end := (len(all) + n) / 2
	return place{all[:n], all[n : end-2], all[n:end], all[end:]}
}

// keys are those of a script that is about the name alone.
func (p place) keys(args ...string) []string {
	return append([]string{p.hold, p.line, p.waits, p.lives}, args...)
}

func (l layout) hold(name string) string { return l.prefix + name }
func (l layout) line(name string) string { return l.prefix + mark + l.tag(name) + "h" + name }

// fence is the key of the counter that name's tokens come from.
func (l layout) fence(name string) string {
	if !l.cluster {
		return l.alone.fence
	}
	return l.prefix + mark + l.tag(name) + "f"
}

// channel is where the waiters of one engine for name are told of their turns.
func (l layout) channel(engine, name string) string {
	if !l.cluster {
		return l.alone.channel
	}
	return l.prefix + mark + l.tag(name) + "c" + engine
}

// record is the key of a record.
func (l layout) record(key string) string { return l.prefix + mark + l.tag(key) + "r" + key }

// told is where departures from a line are told.
func told(line string) string { return line + mark + "n" }

// nameOf returns the name that a hold or a line belongs to.
func (l layout) nameOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, l.prefix)
	if !ok {
		return "", false
	}
	rest, side := strings.CutPrefix(rest, mark)
	if !side {
		return rest, rest != "" && !strings.Contains(rest, mark)
	}
	if l.cluster {
		_, rest, _ = strings.Cut(rest, "}")
	}
	name, ok = strings.CutPrefix(rest, "h")
	return name, ok && !strings.Contains(name, mark) // behind the name: the sets beside the line
}

// patterns match the holds and the lines of all names that begin with prefix.
func (l layout) patterns(prefix string) []string {
	if prefix == "" {
		return []string{glob(l.prefix) + "*"}
	}
	side := l.prefix + mark
	tag := ""
	if l.cluster {
		tag = "{*}"
	}
	return []string{glob(l.prefix+prefix) + "*", glob(side) + tag + "h" + glob(prefix) + "*"}
}

// glob escapes what has a meaning in a pattern.
func glob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// slots is how many a cluster has.
const slots = 1 << 14

// tag is a hash tag that leads to the slot of name's hold. Where the prefix has
// one of its own, that one counts and this is just a part of the key.
func (l layout) tag(name string) string {
	if !l.cluster {
		return ""
	}
	return tags()[slot(l.prefix+name)]
}

// tags has one hash tag for every slot: the smallest number that leads there, so
// that all processes agree.
var tags = sync.OnceValue(func() *[slots]string {
	var all [slots]string
	for n, left := 0, slots; left > 0; n++ {
		text := strconv.Itoa(n)
		if s := crc16(text) % slots; all[s] == "" {
			all[s] = "{" + text + "}"
			left--
		}
	}
	return &all
})

// slot is the cluster's slot of a key.
func slot(key string) int { return int(crc16(hashed(key)) % slots) }

// hashed is the part of a key that its slot is computed of.
func hashed(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// crc16 is the checksum that a cluster computes slots with: polynomial 0x1021,
// from 0, most significant bit first.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
