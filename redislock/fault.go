package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// code is the word in capitals that an error of Redis begins with, "ERR" where
// there is none, since a client may leave that one out, and "" of any other error.
func code(err error) string {
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

// moving reports whether a server refused a command, untouched, because its keys
// are not together: their slot is being moved.
func moving(err error) bool { return code(err) == "TRYAGAIN" }

// cutShort reports whether a cluster ended a script that had begun, because the
// slot was being moved or the cluster was down. Servers have no code for it.
func cutShort(err error) bool {
	var s ServerError
	return errors.As(err, &s) &&
		(strings.Contains(string(s), "access a non local key") || strings.Contains(string(s), "while the cluster is down"))
}

// passing reports whether a server refuses for now: it starts, fails over, or is not
// the node to ask.
func passing(err error) bool {
	switch code(err) {
	case "READONLY", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "ASK":
		return true
	}
	return cutShort(err)
}

// fault wraps an error in the sentinel that says what the caller may do.
func fault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if short := (shortage{}); errors.As(err, &short) {
		return fmt.Errorf("redislock: %w", short.error)
	}
	switch word := code(err); {
	case word == "NOAUTH" || word == "WRONGPASS" || word == "NOPERM":
		return fmt.Errorf("redislock: %w: %w", driver.ErrDenied, err)
	case word == "" || passing(err):
		return fmt.Errorf("redislock: %w: %w", driver.ErrUnreachable, err)
	}
	return fmt.Errorf("redislock: %w", err)
}

// faultAt is fault for a command on the hold of a name.
func (e *Engine) faultAt(name string, err error) error {
	if code(err) == "WRONGTYPE" {
		return fmt.Errorf("redislock: key %q holds something that is not a lock: %w", e.keys.hold(name), err)
	}
	return fault(err)
}
