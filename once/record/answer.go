package record

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recordenc"
)

// The errors of a key. Each comes as the Err of an *[Error], which carries the record.
var (
	ErrRunning        = errors.New("running elsewhere")
	ErrMismatch       = errors.New("key was used with another payload")
	ErrUnknownOutcome = errors.New("a run did not complete, its outcome is unknown")
	ErrFailed         = errors.New("failed before")
	ErrFinished       = errors.New("finished already")
	ErrTooLarge       = driver.ErrTooLarge
	ErrCodec          = recordenc.ErrCodec
)

// Error says what went wrong with a key, and carries its record.
type Error struct {
	Key    string
	Record Record // the zero Record where it was not read
	Err    error
}

// Error returns the key and what went wrong.
func (e *Error) Error() string {
	if errors.Is(e.Err, ErrFailed) {
		return fmt.Sprintf("once %q: %v: %s", e.Key, e.Err, driver.OneLine(e.Record.Failure))
	}
	return fmt.Sprintf("once %q: %s", e.Key, driver.OneLine(e.Err.Error()))
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns err as an *Error, unless it is one.
func Wrap(key string, rec Record, err error) error {
	if _, told := errors.AsType[*Error](err); told {
		return err
	}
	return &Error{Key: key, Record: rec, Err: err}
}

// Mismatch reports whether a record is of another payload; "" is not compared.
func (r *Record) Mismatch(fingerprint string) bool {
	return fingerprint != "" && r.Fingerprint != "" && fingerprint != r.Fingerprint
}

// Answer returns the result that a record has; decided is false if the work is not
// finished.
func Answer[T any](key, fingerprint string, rec Record) (v T, decided bool, err error) {
	switch {
	case rec.State == "":
		return v, false, nil
	case rec.Mismatch(fingerprint):
		err = ErrMismatch
	case rec.State == Failed:
		err = ErrFailed
	case rec.State == Unknown:
		err = ErrUnknownOutcome
	case rec.State == Running:
		return v, false, nil
	case rec.Missing == MissingTooLarge:
		err = ErrTooLarge
	case rec.Missing != "":
		err = ErrCodec
	default:
		err = recordenc.Decode(rec.Codec, rec.Result, &v)
	}
	if err != nil {
		return v, true, Wrap(key, rec, err)
	}
	return v, true, nil
}
