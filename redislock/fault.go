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

// fault wraps an error in the sentinel that says what the caller may do.
func fault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if short := (shortage{}); errors.As(err, &short) {
		return fmt.Errorf("redislock: %w", short.error)
	}
	switch code(err) {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return fmt.Errorf("redislock: %w: %w", driver.ErrDenied, err)
	case "READONLY", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "ASK":
		// Refused for now: it starts, fails over, or this is not the node to ask.
		return fmt.Errorf("redislock: %w: %w", driver.ErrUnreachable, err)
	case "":
		return fmt.Errorf("redislock: %w: %w", driver.ErrUnreachable, err)
	default:
		return fmt.Errorf("redislock: %w", err)
	}
}

// faultAt is fault for a command on the hold of a name.
func (e *Engine) faultAt(name string, err error) error {
	if code(err) == "WRONGTYPE" {
		return fmt.Errorf("redislock: key %q holds something that is not a lock: %w", e.keys.hold(name), err)
	}
	return fault(err)
}
