// Package recipe is what the recipes share: the names they reserve, how their
// records are written, and how a value becomes bytes.
package recipe

import (
	"fmt"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recordenc"
)

// Reserved begins the name of every lock that a recipe takes and the key of every
// record that it keeps.
const Reserved = recordenc.Reserved

// MaxKey is the longest key of a recipe, in bytes.
const MaxKey = recordenc.MaxKey

// ErrCodec says that a record was written with a codec that is not known here, or
// that a value cannot be written or read with its codec.
var ErrCodec = recordenc.ErrCodec

// Name returns the name of the lock, and of the record, that a recipe has for key.
// Two keys never share one.
func Name(kind, key string) (string, error) {
	name, err := recordenc.Name(kind, key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", pawl.ErrInvalidName, err)
	}
	return name, nil
}

// Encode returns v as bytes, and the codec: a []byte is itself, all else JSON.
func Encode[T any](v T) (codec string, b []byte, err error) { return recordenc.Encode(v) }

// Decode reads what Encode wrote into *v.
func Decode(codec string, b []byte, v any) error { return recordenc.Decode(codec, b, v) }
