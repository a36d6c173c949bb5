package redisclient

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"strconv"
	"sync"
	"time"
)

// A Call is one command, or one run of a script, before it is encoded.
type Call struct {
	Name   string  // of the command; not used for a script
	Script *Script // nil: a command
	Keys   []string
	Args   []string
	Merge  *Merge // how several such calls become one; nil: not at all
	Claims int    // how many it is about; 0: one
	Ahead  bool   // what it gives back others wait for: a client may send it before calls that are not

	ReadOnly bool          // the client library may repeat it, as it is configured
	Blocks   time.Duration // how long the server may wait before it replies

	sendText bool // the server does not know the script
}

// Command returns a call of a command with at most one key, its first argument.
func Command(name, key string, args ...string) Call {
	return Call{Name: name, Keys: []string{key}, Args: args}
}

// ScriptHead returns what precedes the keys of a script: the command that runs it, its
// digest or text, and the number of keys.
func (c *Call) ScriptHead() (command, script, keys string) {
	s := c.Script.loaded()
	if c.sendText {
		return "EVAL", s.text, strconv.Itoa(len(c.Keys))
	}
	return "EVALSHA", s.digest, strconv.Itoa(len(c.Keys))
}

// Words encodes the call.
func (c *Call) Words() []string {
	words := make([]string, 0, 3+len(c.Keys)+len(c.Args))
	if c.Script == nil {
		words = append(words, c.Name)
	} else {
		command, script, keys := c.ScriptHead()
		words = append(words, command, script, keys)
	}
	words = append(words, c.Keys...)
	return append(words, c.Args...)
}

// WithText returns the call with the text of its script instead of the digest, for a
// server that does not know it.
func (c Call) WithText() Call {
	c.sendText = true
	return c
}

// A Script is a Lua program and its digest. Both are made on first use: a program that
// links this package but does not use Redis need not pay for them.
type Script struct {
	files        fs.FS
	names        []string
	once         sync.Once
	text, digest string
}

// NewScript returns the script that consists of the named files, in this order.
func NewScript(files fs.FS, names ...string) *Script { return &Script{files: files, names: names} }

func (s *Script) loaded() *Script {
	s.once.Do(func() {
		for _, name := range s.names {
			part, err := fs.ReadFile(s.files, name)
			if err != nil {
				panic(err) // a file that is not embedded
			}
			s.text += string(part)
		}
		sum := sha1.Sum([]byte(s.text))
		s.digest = hex.EncodeToString(sum[:])
	})
	return s
}

// A Merge turns several calls that have it into one run of a script. That script
// serves the common case of each call and replies with an array of one element per
// call: ” or 0 where it did nothing, and the call must be sent by itself.
type Merge struct {
	Script *Script
	Join   func(calls []*Call) (keys, args []string)
}

func (m *Merge) call(calls []*Call, sendText bool) Call {
	keys, args := m.Join(calls)
	return Call{Script: m.Script, Keys: keys, Args: args, sendText: sendText}
}

// Expiry rounds a duration up to whole milliseconds, the resolution of expiry in Redis,
// and returns it also as an argument.
func Expiry(d time.Duration) (time.Duration, string) {
	const ms = time.Millisecond
	if rest := d % ms; rest != 0 {
		d += ms - rest
	}
	d = max(d, ms)
	return d, strconv.FormatInt(d.Milliseconds(), 10)
}
