// Package keyspace says what pawl's keys in Redis are called and what the key of a hold
// contains. Every process on one prefix must agree on both, so they change only
// together with a version of the format. The package asks no server.
package keyspace

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// separator stands in every key that is not a hold, right behind the prefix. It is a
// control character, which neither a name nor a prefix contains, so that no such key
// can be the hold of a name.
const separator = "\x01"

// A Space is the keys under one prefix. In a cluster all keys of one name must be in
// one slot, and the key of the hold is given by the name; so the other keys carry a
// hash tag of the hold's slot.
type Space struct {
	prefix, engine string
	cluster        bool
	fence, channel string // of all names, unless it is a cluster
}

// New returns the keys under a prefix. engine identifies the engine that uses them: its
// waiters have a channel of their own.
func New(prefix, engine string, cluster bool) Space {
	return Space{
		prefix: prefix, engine: engine, cluster: cluster,
		fence: prefix + separator + "f", channel: prefix + separator + "c" + engine,
	}
}

// Check reports a prefix that keys cannot be made of.
func (s Space) Check() error {
	if strings.ContainsFunc(s.prefix, unicode.IsControl) || !utf8.ValidString(s.prefix) {
		return errors.New("redislock: the prefix is not UTF-8 without control characters")
	}
	if s.cluster && strings.Contains(s.prefix, "{") && hashed(s.prefix+"x") == s.prefix+"x" {
		return errors.New("redislock: the prefix begins a hash tag that it does not end")
	}
	return nil
}

// Cluster reports whether the keys are spread over the slots of a cluster.
func (s Space) Cluster() bool { return s.cluster }

// Keys are those of one name; the line package's line.lua describes their contents.
type Keys struct {
	Hold     string // the key of the plain recipe, SET NX PX
	Line     string // a hash: the claims that wait or share, and their sums
	Fence    string // a number: the last token; names have it in common
	Waiting  string // a sorted set: the claims that wait, by arrival
	Expiries string // a sorted set: all claims of the line, by expiry
}

// Of returns the keys of a name, made in one allocation, in a cluster two: every lock
// needs them.
func (s Space) Of(name string) Keys {
	tag := s.tag(name)
	all := s.prefix + name + s.prefix + separator + tag + "h" + name + separator + "w" + s.prefix + separator + tag + "h" + name + separator + "l"
	n := len(s.prefix) + len(name)
	end := (len(all) + n) / 2
	return Keys{all[:n], all[n : end-2], s.Fence(name), all[n:end], all[end:]}
}

// All returns the keys in the order in which scripts declare them.
func (k Keys) All() []string { return []string{k.Hold, k.Line, k.Fence, k.Waiting, k.Expiries} }

// Hold returns the key of the hold of a name.
func (s Space) Hold(name string) string { return s.prefix + name }

// Line returns the key of the line of a name.
func (s Space) Line(name string) string { return s.prefix + separator + s.tag(name) + "h" + name }

// Fence returns the key of the counter of the tokens of a name.
func (s Space) Fence(name string) string {
	if !s.cluster {
		return s.fence
	}
	return s.prefix + separator + s.tag(name) + "f"
}

// Channel returns the channel on which the engine's waiters for a name are notified of
// their grants.
func (s Space) Channel(name string) string {
	if !s.cluster {
		return s.channel
	}
	return s.prefix + separator + s.tag(name) + "c" + s.engine
}

// Departures returns the channel on which departures from a name are published.
func (s Space) Departures(name string) string { return s.Line(name) + separator + "n" }

// Record returns the key of a record.
func (s Space) Record(key string) string { return s.prefix + separator + s.tag(key) + "r" + key }

// Membership returns the key of what a node knows of its quorum.
func (s Space) Membership() string { return s.prefix + separator + "q" }

// Probe returns a key that nothing is ever stored under.
func (s Space) Probe() string { return s.prefix + separator + "probe" }

// Name returns the name that the key of a hold or of a line belongs to.
func (s Space) Name(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, s.prefix)
	if !ok {
		return "", false
	}
	rest, beside := strings.CutPrefix(rest, separator)
	if !beside {
		return rest, rest != "" && !strings.Contains(rest, separator)
	}
	if s.cluster {
		_, rest, _ = strings.Cut(rest, "}")
	}
	name, ok = strings.CutPrefix(rest, "h")
	return name, ok && !strings.Contains(name, separator) // the sorted sets have one behind the name
}

// HoldPattern matches the holds of all names that begin with prefix.
func (s Space) HoldPattern(prefix string) string { return escapePattern(s.prefix+prefix) + "*" }

// Patterns match the holds and the lines of all names that begin with prefix.
func (s Space) Patterns(prefix string) []string {
	if prefix == "" {
		return []string{s.HoldPattern("")}
	}
	tag := ""
	if s.cluster {
		tag = "{*}"
	}
	return []string{s.HoldPattern(prefix), escapePattern(s.prefix+separator) + tag + "h" + escapePattern(prefix) + "*"}
}

func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// tag returns a hash tag of the slot of name's hold. Where the prefix contains a hash
// tag, Redis uses that one, and this one is an ordinary part of the key.
func (s Space) tag(name string) string {
	if !s.cluster {
		return ""
	}
	return tags()[slot(s.prefix+name)]
}
