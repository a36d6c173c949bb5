package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// A ServerError is an error reply, as Redis words it: a code in capitals comes first.
type ServerError string

// Error returns the reply.
func (e ServerError) Error() string { return string(e) }

// ErrClosed says that the program has closed the client: no call will succeed.
var ErrClosed = errors.New("the client is closed")

// A ReplicationError says that too few replicas confirmed a write. The connection is
// healthy.
type ReplicationError struct{ Err error }

// Error returns the text of the cause.
func (e ReplicationError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e ReplicationError) Unwrap() error { return e.Err }

// Code returns the code of an error reply, "ERR" if it has none, since a client may
// remove that one, and "" for any other error.
func Code(err error) string {
	if err == nil {
		return ""
	}
	var s ServerError
	if !errors.As(err, &s) {
		return ""
	}
	word, _, _ := strings.Cut(string(s), " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "ERR"
	}
	return word
}

// Moving reports whether a server refused a call, untouched, because its slot is being
// moved and the keys are on two nodes.
func Moving(err error) bool { return Code(err) == "TRYAGAIN" }

// Refused reports whether a server refused a call before it began. "ERR" does not say
// so: a script that fails half way has that code too.
func Refused(err error) bool {
	code := Code(err)
	return code != "" && code != "ERR"
}

// interrupted reports whether a cluster stopped a script half way, because the slot was
// being moved or the cluster was down. Servers have no code for that.
func interrupted(err error) bool {
	var s ServerError
	return errors.As(err, &s) &&
		(strings.Contains(string(s), "access a non local key") || strings.Contains(string(s), "while the cluster is down"))
}

// denied reports whether the user lacks a right, of the call or of a command in its
// script. Servers have no code for the latter.
func denied(err error) bool {
	switch Code(err) {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return true
	case "ERR":
		text := err.Error()
		return strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
	}
	return false
}

// Temporary reports whether a server refuses for the time being: it starts, fails over,
// or does not serve the key; or it has ended a call that waited.
func Temporary(err error) bool {
	switch Code(err) {
	case "READONLY", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "ASK", "UNBLOCKED":
		return true
	}
	return interrupted(err)
}

// Wrap wraps an error of a [Client] in the sentinel of package driver that says what
// the caller may do.
func Wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if few := (ReplicationError{}); errors.As(err, &few) {
		return fmt.Errorf("redislock: %w", few.Err)
	}
	switch code := Code(err); {
	case errors.Is(err, ErrClosed):
		return fmt.Errorf("redislock: %w", err)
	case denied(err):
		return fmt.Errorf("redislock: %w: %w", driver.ErrDenied, err)
	case code == "CROSSSLOT":
		return fmt.Errorf("redislock: %w: the server is a node of a cluster: open redis-cluster://, or use a client for clusters: %w", driver.ErrUnsupported, err)
	case code == "" || Temporary(err):
		return fmt.Errorf("redislock: %w: %w", driver.ErrUnreachable, err)
	}
	return fmt.Errorf("redislock: %w", err)
}

// WrapHold is [Wrap] for a call on the key of a hold.
func WrapHold(key string, err error) error {
	if Code(err) == "WRONGTYPE" {
		return fmt.Errorf("redislock: key %q holds something that is not a lock: %w", key, err)
	}
	return Wrap(err)
}
