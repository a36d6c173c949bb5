package pawl

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// MaxName is the longest name of a lock, in bytes.
const MaxName = 255

// checkName is the one rule for all engines, asked before any I/O. Whatever it
// accepts, engines keep apart: "a", "A", "a " and "a/b" are four locks.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty", ErrInvalidName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: not valid UTF-8", ErrInvalidName)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: control character %U", ErrInvalidName, r)
		}
	}
	return nil
}

func checkNote(note string) error {
	switch {
	case len(note) > driver.MaxNote:
		return fmt.Errorf("%w: note of %d bytes, at most %d", ErrInvalid, len(note), driver.MaxNote)
	case !utf8.ValidString(note):
		return fmt.Errorf("%w: note is not valid UTF-8", ErrInvalid)
	}
	return nil
}
