package pawl

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pawl-go/pawl/driver"
)

// The errors of this package, for errors.Is.
var (
	// ErrHeld says that somebody else holds the lock: from a TryLock, or after the
	// wait that WithWait allowed. *HeldError says who.
	ErrHeld = errors.New("held")
	// ErrLost says that the lock was not ours any more; it is also the cause of a
	// lease's context that ended by itself. Where the store refused to renew the lock,
	// the error is that refusal too, such as ErrDenied.
	ErrLost = errors.New("lock lost")
	// ErrReleased is the cause of a lease's context after Unlock.
	ErrReleased = errors.New("lock released")
	// ErrNotHeld is the answer to a second Unlock.
	ErrNotHeld = errors.New("lock is not held")
	// ErrReentry says that the caller's own context already holds this lock, so
	// that waiting for it would never end. See WithReentry.
	ErrReentry = errors.New("already held by the caller's own context, which WithReentry would allow")
	// ErrUpgrade says that the caller's own context holds the lock for reading:
	// two readers that both want to write would wait for each other for ever.
	ErrUpgrade = errors.New("held for reading by the caller's own context, which cannot be upgraded")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("client is closed")
	// ErrUnknown says that the store did not answer, so that the outcome is not
	// known; it is settled in the background, by the end of the lease at the latest.
	// From Unlock it also says that the store knows nothing of the lock any more,
	// where a call before that had no answer: that call may have given it back, or
	// the lock was lost before it.
	ErrUnknown = errors.New("outcome unknown")
	// ErrInvalid says that an option or an argument is not allowed.
	ErrInvalid = errors.New("invalid argument")
	// ErrInvalidName says that a name is not 1 to 255 bytes of valid UTF-8 without
	// control characters.
	ErrInvalidName = errors.New("invalid name")
	// ErrLimit says that the name is in use with another limit; *LimitError says by
	// whom. With ErrInvalid it says that more permits were asked for than there are.
	ErrLimit = driver.ErrLimit
	// ErrUnsupported says that the engine cannot do this.
	ErrUnsupported = driver.ErrUnsupported
	// ErrDenied says that the store refused the credentials or the right.
	ErrDenied = driver.ErrDenied
	// ErrUnreachable says that the store did not answer.
	ErrUnreachable = driver.ErrUnreachable
)

// Error says which operation on which name failed. Its Err is one of the errors
// above, or what the engine returned.
type Error struct {
	Op     string // "lock", "unlock", "list" …
	Name   string
	Engine string // the kind of store: "memory", "sqlite" …
	Err    error
}

// Error returns the operation, the name and what went wrong, in one line.
func (e *Error) Error() string {
	why := driver.OneLine(e.Err.Error())
	if e.Name == "" {
		return e.Op + ": " + why
	}
	return e.Op + " " + strconv.Quote(e.Name) + ": " + why
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// HeldError says who held the lock when an acquire ended without it.
type HeldError struct {
	Holder *driver.Entry // nil where the engine did not say
	Ahead  int           // claims ahead of ours in the line; -1 unknown
	Err    error         // ErrHeld, or the error of the context that ended the wait
}

// Error returns the holder's note and for how long it has held.
func (e *HeldError) Error() string {
	by := "held"
	if h := e.Holder; h != nil {
		switch {
		case h.Note != "":
			by = "held by " + printable(h.Note)
		case h.Foreign:
			by = "held by another program"
		}
		if h.Held && h.Since >= time.Millisecond {
			by += " for " + h.Since.Round(time.Millisecond).String()
		}
	}
	if errors.Is(e.Err, ErrHeld) {
		return by
	}
	return fmt.Sprintf("%v; %s", e.Err, by)
}

// LimitError says that a name is in use with another limit, and by whom.
type LimitError struct {
	Limit int           // what was asked for: driver.All for a read-write lock
	Other *driver.Entry // a claim that has another limit; nil where the store did not say
	Err   error         // what the engine returned, which is ErrLimit
}

// Error returns both limits, and who has the other one.
func (e *LimitError) Error() string {
	others := "others use it in another way"
	if o := e.Other; o != nil {
		does := "waits for"
		if o.Held {
			does = "holds"
		}
		others = fmt.Sprintf("%s %s it as %s", cmp.Or(printable(o.Note), "somebody"), does, kindOfLimit(o.Limit))
	}
	return fmt.Sprintf("%v: this is %s, and %s; use the same, or another name", ErrLimit, kindOfLimit(e.Limit), others)
}

// Unwrap returns Err.
func (e *LimitError) Unwrap() error { return e.Err }

// kindOfLimit describes the kind of lock that has a limit.
func kindOfLimit(limit int) string {
	if limit == driver.All {
		return "a read-write lock"
	}
	return fmt.Sprintf("a semaphore of %d permits", limit)
}

// printable replaces the control characters of a note, which any client may have
// written, so that it cannot move a terminal's cursor.
func printable(note string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, note)
}

// Unwrap returns Err: a wait that was cancelled is the context's error, not ErrHeld.
func (e *HeldError) Unwrap() error { return e.Err }

// worded is an error in other words.
type worded struct {
	error
	text string
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.error }

// noAnswer says for how long the store did not answer.
func noAnswer(d time.Duration) error {
	return fmt.Errorf("%w: no answer for %v", driver.ErrUnreachable, d.Round(time.Millisecond))
}

// fail wraps err once; an *Error that is wrapped already keeps its own words.
func (c *Client) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, wrapped := errors.AsType[*Error](err); wrapped {
		return err
	}
	return &Error{Op: op, Name: name, Engine: c.kind, Err: err}
}
