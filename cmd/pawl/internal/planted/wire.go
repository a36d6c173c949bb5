package planted

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// An op is a call that is sent to the server.
type op uint8

const (
	opHello  op = iota + 1
	opCancel    // ends the Await of the same number, and has no reply
	opOpen
	opClose
	opEnter
	opEnterAll
	opAwait
	opLeave
	opBeat
	opList
	opLine
	opEvict
	opLoad
	opStore
)

// A request is one call. Which fields count depends on the op.
type request struct {
	ID      uint64
	Op      op
	Session string
	TTL     time.Duration
	Note    string
	Claims  []driver.Claim
	Last    driver.Standing
	Entry   driver.Entry
	Text    string // a prefix, a name or a key
	Value   []byte
	HasNone bool // the value is nil, which is not the same as empty
	Version uint64
	Keep    time.Duration
}

// A reply is the answer to the request of the same ID.
type reply struct {
	ID        uint64
	Err       wireError
	Bug       string
	Features  driver.Features
	TTL       time.Duration
	Standings []driver.Standing
	Entries   []driver.Entry
	Value     []byte
	Version   uint64
}

// sentinels are the errors that keep their meaning on the way; a wireError's Code is the
// place in this list.
var sentinels = []error{
	driver.ErrGone, driver.ErrLimit, driver.ErrUnsupported, driver.ErrDenied, driver.ErrUnreachable,
	driver.ErrConflict, driver.ErrTooLarge, driver.ErrNoVote,
}

// A wireError is an error as it is sent; without a text there is none.
type wireError struct {
	Text string
	Code int // from 1; 0: none of the sentinels
}

func encodeError(err error) (w wireError) {
	if err == nil {
		return w
	}
	w.Text = err.Error()
	for i, s := range sentinels {
		if errors.Is(err, s) {
			w.Code = i + 1
		}
	}
	return w
}

func (w wireError) decode() error {
	switch {
	case w.Text == "":
		return nil
	case w.Code == 0 || w.Code > len(sentinels):
		return errors.New(w.Text)
	}
	return remoteError{w.Text, sentinels[w.Code-1]}
}

// A remoteError is an error of the server that wraps a sentinel.
type remoteError struct {
	text     string
	sentinel error
}

func (e remoteError) Error() string { return e.text }
func (e remoteError) Unwrap() error { return e.sentinel }
