package doctor

import (
	"fmt"
	"strings"
)

// A Level says how bad a finding is. Higher is worse.
type Level int

// The levels.
const (
	OK      Level = iota
	Warning       // locks work, and a fault that may come costs more than it has to
	Broken        // locks do not work, or their promises do not hold
)

var levels = []string{"ok", "warning", "broken"}

// String returns the level in a word.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levels) {
		return fmt.Sprintf("level %d", int(l))
	}
	return levels[l]
}

// MarshalText returns the level in a word.
func (l Level) MarshalText() ([]byte, error) {
	if l < 0 || int(l) >= len(levels) {
		return nil, fmt.Errorf("doctor: no %v", l)
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (l *Level) UnmarshalText(text []byte) error {
	for i, word := range levels {
		if word == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("doctor: no level is called %q", text)
}

// A Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`             // stable, short, lower case: "eviction policy"
	Level   Level  `json:"level"`             //
	Found   string `json:"found"`             // what was read or measured
	Meaning string `json:"meaning,omitempty"` // what it means for a lock; "" if ok
	Mend    string `json:"mend,omitempty"`    // the line that mends it, to be typed or put in a file as it is; "" if ok
	Node    string `json:"node,omitempty"`    // which of several servers
}

// Good returns a finding without fault.
func Good(check, found string) Finding { return Finding{Check: check, Found: found} }

// Warn returns a warning.
func Warn(check, found, meaning, mend string) Finding {
	return Finding{Check: check, Level: Warning, Found: found, Meaning: meaning, Mend: mend}
}

// Break returns a finding that is broken.
func Break(check, found, meaning, mend string) Finding {
	return Finding{Check: check, Level: Broken, Found: found, Meaning: meaning, Mend: mend}
}

// At returns f as a finding about one of several servers.
func (f Finding) At(node string) Finding {
	f.Node = node
	return f
}

// Worst returns the worst level among findings, and OK if there are none.
func Worst(found []Finding) Level {
	worst := OK
	for _, f := range found {
		worst = max(worst, f.Level)
	}
	return worst
}

// Quote returns a word for the shell, for mends: a server or a folder may have any name.
func Quote(word string) string {
	if word == "" || strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
