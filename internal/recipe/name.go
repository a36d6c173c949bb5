// Package recipe is what the recipes share: the names they reserve, how their
// records are written, and how a value becomes bytes.
package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
)

// Reserved begins the name of every lock that a recipe takes and the key of every
// record that it keeps, so that none is met by a name of the user's. It is legal
// in a name, and sorts before letters and digits, so that operators see such locks
// first and apart: ".pawl/once/orders/42".
const Reserved = ".pawl/"

// MaxKey is the longest key of a recipe, in bytes.
const MaxKey = 1024

// Name returns the name of the lock, and of the record, that a recipe has for key.
// Two keys never share one. A key that is too long for a name goes by its hash,
// under another word, so that it cannot be met by a key that is written like it.
func Name(kind, key string) (string, error) {
	switch {
	case key == "":
		return "", fmt.Errorf("%w: empty", pawl.ErrInvalidName)
	case len(key) > MaxKey:
		return "", fmt.Errorf("%w: key of %d bytes, at most %d", pawl.ErrInvalidName, len(key), MaxKey)
	case !utf8.ValidString(key):
		return "", fmt.Errorf("%w: not valid UTF-8", pawl.ErrInvalidName)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("%w: control character %U", pawl.ErrInvalidName, r)
		}
	}
	if name := Reserved + kind + "/" + key; len(name) <= pawl.MaxName {
		return name, nil
	}
	sum := sha256.Sum256([]byte(key))
	return Reserved + kind + "-long/" + hex.EncodeToString(sum[:]), nil
}
