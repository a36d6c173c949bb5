// Package fence has the resource itself refuse holders whose lease has ended.
//
// A lease can pass to another process while its old holder is paused, so the resource
// must have the last word: it keeps a mark of the largest token it has seen, and
// refuses a smaller one. That only helps if check and effect are one step there:
// inside one transaction, one script, one critical section.
//
// The mark must be raised when a holder begins, also if it only reads, and not at its
// first write. Otherwise: the new holder reads, the old one writes with its smaller
// token and is accepted, the new one overwrites that, and a change is lost although
// all tokens were in order. So call Begin first, and check again with every effect.
//
// There are two marks, one of writers and one of readers: readers do not exclude each
// other, but a writer that comes after a later reader, or a reader after a later
// writer, is refused.
//
// Tokens are those of one lock: the tokens of two names have no order.
package fence

import (
	"errors"
	"fmt"
)

// ErrStale says that a later holder has begun; nothing was done.
var ErrStale = errors.New("stale token")

// A Mode says what a holder may do.
type Mode int

// The modes: Write is for a lock that is held alone, Read for one that is shared.
const (
	Write Mode = iota
	Read
)

// String returns the mode in lower case.
func (m Mode) String() string {
	if m == Read {
		return "read"
	}
	return "write"
}

// Marks are the largest tokens that a resource has seen.
type Marks struct{ Write, Read uint64 }

// StaleError says which token was refused, and because of which marks.
type StaleError struct {
	Mode  Mode
	Token uint64
	Marks Marks // the zero Marks where they were not learnt
}

// Error returns the token and the mark.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %v with token %d after writer %d and reader %d", ErrStale, e.Mode, e.Token, e.Marks.Write, e.Marks.Read)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Admit is the rule: a writer passes if no later writer and no reader of its token
// or a later one has begun, a reader if no writer of its token or a later one has.
// It returns the marks as they are to be kept from then on. Token 0, which is that
// of an engine without tokens, never passes.
func (m Marks) Admit(mode Mode, token uint64) (Marks, error) {
	switch {
	case token == 0:
	case mode == Write && token >= m.Write && token > m.Read:
		m.Write = token
		return m, nil
	case mode == Read && token > m.Write:
		m.Read = max(m.Read, token)
		return m, nil
	}
	return m, &StaleError{mode, token, m}
}
