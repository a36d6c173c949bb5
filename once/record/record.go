// Package record is the record of work that runs once.
//
// Package once writes it, and so does OnceTx of package sqllock, in a transaction
// of the caller's. Programs use these names by way of package once.
package record

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/internal/recordenc"
)

// A State says how far a key's work has come.
type State string

// The states of a key.
const (
	Running State = "running" // it began, and no end is recorded
	Done    State = "done"
	Failed  State = "failed"  // with an error that is kept
	Unknown State = "unknown" // with WithHold: it began, and did not complete
)

// A Record is what is stored for a key. The zero Record says that there is none.
type Record struct {
	State       State     `json:"state"`
	Fingerprint string    `json:"print,omitempty"`    // SHA-256 of the payload, in hex
	Hold        bool      `json:"hold,omitempty"`     // the run was begun with WithHold
	Attempts    int       `json:"attempts,omitempty"` // runs begun
	Token       uint64    `json:"token,string"`       // of the last run; 0 if it had no lease
	Started     time.Time `json:"started"`            // by the runner's clock, for people
	Ended       time.Time `json:"ended,omitzero"`
	Failure     string    `json:"failure,omitempty"` // the text of the error that is kept
	Codec       string    `json:"codec,omitempty"`   // of Result
	Result      []byte    `json:"-"`
	Missing     string    `json:"lacks,omitempty"` // why work that was done has no result

	WriteID string `json:"mark"` // no other write has it
}

// The values of Missing.
const (
	MissingTooLarge = "too large"
	MissingCodec    = "cannot be coded"
)

// DefaultKeep is how long a result is kept without WithKeep.
const DefaultKeep = 24 * time.Hour

// WriteID returns random text that no other write has.
func WriteID() string { return rand.Text() }

// Fingerprint returns the fingerprint of a payload.
func Fingerprint(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// Name returns the name of the record of a key.
func Name(key string) (string, error) { return recordenc.Name("once", key) }

// Marshal returns the record as it is stored: one line of JSON, which people can read,
// and the bytes of the result.
func (r *Record) Marshal() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), r.Result...), nil
}

// Parse is the inverse of Marshal.
func Parse(b []byte) (r Record, err error) {
	head, result, ok := bytes.Cut(b, []byte("\n"))
	if ok {
		err = json.Unmarshal(head, &r)
	}
	switch {
	case !ok, err != nil:
		return Record{}, fmt.Errorf("%w: not written as a record of once", ErrCodec)
	case r.State != Running && r.State != Done && r.State != Failed && r.State != Unknown:
		return Record{}, fmt.Errorf("%w: unknown state %q", ErrCodec, r.State)
	}
	r.Result = result
	return r, nil
}

// Fail makes the record that of a failure whose error is kept.
func (r *Record) Fail(cause error) {
	r.State, r.Ended, r.Failure, r.WriteID = Failed, time.Now(), brief(cause.Error()), WriteID()
}

// maxFailure is how many bytes of an error's text are kept.
const maxFailure = 4 << 10

// brief cuts a text to maxFailure bytes.
func brief(s string) string {
	if len(s) <= maxFailure {
		return s
	}
	end := maxFailure
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// permanent marks an error that is to be kept.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error as one that a retry would get again.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent reports whether an error was marked by Permanent.
func IsPermanent(err error) bool {
	_, is := errors.AsType[permanent](err)
	return is
}
