package pawl

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// MaxName is the longest name of a lock, in bytes.
const MaxName = 255

// checkName is the one rule for all engines, checked before any I/O. Engines keep
// apart whatever it accepts: "a", "A", "a " and "a/b" are four locks.
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

// newID returns 128 random bits in hex.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// whoami is the note of a client that sets none: user@host, process and program.
var whoami = sync.OnceValue(func() string {
	who := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		who = u.Username
	} else if uid := os.Getuid(); uid >= 0 { // a user without a name, as in a container
		who = strconv.Itoa(uid)
	}
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	who += " pid " + strconv.Itoa(os.Getpid()) + " " + filepath.Base(os.Args[0])
	if len(who) > driver.MaxNote || !utf8.ValidString(who) {
		who = "pid " + strconv.Itoa(os.Getpid())
	}
	return who
})
