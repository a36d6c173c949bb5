// Package recordenc is how recipes write what they keep: under which name, and how a
// value becomes bytes. It stands on the standard library alone, so that an engine
// may use it too.
package recordenc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Reserved begins the name of every lock that a recipe takes and the key of every
// record that it keeps, so that none is met by a name of the user's. It is legal
// in a name, and sorts before letters and digits, so that operators see such locks
// first and apart: ".pawl/once/orders/42".
const Reserved = ".pawl/"

const (
	// MaxKey is the longest key of a recipe, in bytes.
	MaxKey = 1024
	// maxName is the longest name of a lock, in bytes.
	maxName = 255
)

// ErrKey says that a key is not 1 to 1024 bytes of UTF-8 without control characters.
var ErrKey = errors.New("not a key")

// Name returns the name of the lock, and of the record, that a recipe has for key.
// Two keys never share one. A key that is too long for a name goes by its hash,
// under another word, so that it cannot be met by a key that is written like it.
func Name(kind, key string) (string, error) {
	switch {
	case key == "":
		return "", fmt.Errorf("%w: empty", ErrKey)
	case len(key) > MaxKey:
		return "", fmt.Errorf("%w: %d bytes, at most %d", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return "", fmt.Errorf("%w: not valid UTF-8", ErrKey)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("%w: control character %U", ErrKey, r)
		}
	}
	if name := Reserved + kind + "/" + key; len(name) <= maxName {
		return name, nil
	}
	sum := sha256.Sum256([]byte(key))
	return Reserved + kind + "-long/" + hex.EncodeToString(sum[:]), nil
}
