package recordenc

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The codecs for values. Every record names its codec, so that a later version of a
// program can change it.
const (
	JSON = "json"
	Raw  = "raw" // the bytes unchanged
)

// ErrCodec says that a record was written with an unknown codec, or that a value
// cannot be encoded or decoded with its codec.
var ErrCodec = errors.New("value cannot be coded")

// Encode returns v as bytes, and the codec: []byte unchanged, everything else as
// JSON. The codec depends on the type and not on the value, so that reading returns
// the same type.
func Encode[T any](v T) (codec string, b []byte, err error) {
	if raw, ok := any(&v).(*[]byte); ok {
		return Raw, *raw, nil
	}
	b, err = json.Marshal(v)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrCodec, err)
	}
	return JSON, b, nil
}

// Decode decodes what Encode returned into *v.
func Decode(codec string, b []byte, v any) error {
	switch raw, isRaw := v.(*[]byte); {
	case codec == Raw && isRaw:
		*raw = append([]byte{}, b...)
		return nil
	case codec == JSON && !isRaw:
		if err := json.Unmarshal(b, v); err != nil {
			return fmt.Errorf("%w: %w", ErrCodec, err)
		}
		return nil
	case codec == Raw || codec == JSON:
		return fmt.Errorf("%w: %s read into %T", ErrCodec, codec, v)
	}
	return fmt.Errorf("%w: unknown codec %q", ErrCodec, codec)
}
