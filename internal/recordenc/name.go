// Package recordenc encodes what recipes store: the names of locks and records, and
// values. It uses only the standard library, so that engines can use it too.
package recordenc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Reserved is the prefix of all locks and records of recipes, so that they do not
// collide with the user's names. It is legal in a name and sorts before letters and
// digits, so that operators see these locks first and separately:
// ".pawl/once/orders/42".
const Reserved = ".pawl/"

const (
	// MaxKey is the maximum length of a recipe's key, in bytes.
	MaxKey = 1024
	// maxName is the maximum length of a lock's name, in bytes.
	maxName = 255
)

// ErrKey says that a key is not 1 to 1024 bytes of UTF-8 without control
// characters.
var ErrKey = errors.New("not a key")

// Name returns the name of the lock and of the record for a recipe's key. It is
// unique: a key that is too long for a name is hashed and gets another prefix, so
// that it cannot collide with a key that looks like the hash.
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
