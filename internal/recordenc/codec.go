package recordenc

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The codecs a value may be written with. A record says which, so that a later
// version of a program can change its mind.
const (
	JSON = "json"
	Raw  = "raw" // the bytes themselves
)

// ErrCodec says that a record was written with a codec that is not known here, or
// that a value cannot be written or read with its codec.
var ErrCodec = errors.New("value cannot be coded")

// Encode returns v as bytes, and the codec: a []byte is itself, all else JSON.
// The type decides and not the value, so that what is read back has that type too.
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

// Decode reads what Encode wrote into *v.
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
