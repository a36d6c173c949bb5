package claimview

import (
	"fmt"
	"path"
	"strings"

	"github.com/pawl-go/pawl/election"
)

// A Selection is the meaning of a pattern: name prefixes to list, and a filter.
// Elections also match by their own name.
type Selection struct {
	Prefixes []string
	match    func(string) bool
}

// Everything selects all names.
func Everything() Selection {
	return Selection{[]string{""}, func(string) bool { return true }}
}

// Pattern parses a glob. A name without wildcards selects itself and all names that
// begin with it.
func Pattern(glob string) (Selection, error) {
	at := strings.IndexAny(glob, `*?[\`)
	s := Selection{Prefixes: []string{""}}
	if at < 0 {
		at = len(glob)
		s.match = func(name string) bool { return strings.HasPrefix(name, glob) }
	} else {
		if _, err := path.Match(glob, ""); err != nil {
			return s, fmt.Errorf("%q: %w", glob, err)
		}
		// Names are not paths: * also matches slashes.
		flat := strings.NewReplacer("/", "\x00")
		flatGlob := flat.Replace(glob)
		s.match = func(name string) bool {
			ok, _ := path.Match(flatGlob, flat.Replace(name))
			return ok
		}
	}
	prefix := glob[:at]
	if s.Prefixes[0] = prefix; !strings.HasPrefix(Elections, prefix) && !strings.HasPrefix(prefix, Elections) {
		s.Prefixes = append(s.Prefixes, Elections+prefix)
	}
	return s, nil
}

// Wants reports whether a lock is selected.
func (s Selection) Wants(name string) bool {
	own, ok := election.NameOfLock(name)
	return s.match(name) || ok && s.match(own)
}
