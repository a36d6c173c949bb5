package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// ErrPending is the error of a node whose answer was not waited for.
var ErrPending = errors.New("has not answered yet")

// TooFew returns the error of an operation that fewer nodes answered than a majority;
// errs has the error of every node, nil for those that answered. It is
// driver.ErrUnreachable if repeating the operation may help, which it does not where too
// many nodes deny it.
func (s *Set) TooFew(answered int, errs []error) error {
	var named []error
	transient := false
	for i, err := range errs {
		if err == nil {
			continue
		}
		named = append(named, s.nodeError(i, err))
		for _, t := range []error{ErrPending, driver.ErrUnreachable, driver.ErrNoVote, driver.ErrGone} {
			transient = transient || errors.Is(err, t)
		}
	}
	err := fmt.Errorf("quorum: %d of %d nodes answered, %d are needed: %w", answered, len(s.Nodes), s.Majority, driver.Join(named...))
	if transient && !s.denied(errs) {
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return err
}

// denied reports whether so many nodes deny an operation that no majority is left.
func (s *Set) denied(errs []error) bool {
	n := 0
	for _, err := range errs {
		if errors.Is(err, driver.ErrDenied) {
			n++
		}
	}
	return n > len(s.Nodes)-s.Majority
}

// nodeError adds node i's name to an error. ErrGone and ErrNoVote become plain text:
// they concern the session at the node, and the quorum's own session continues.
func (s *Set) nodeError(i int, err error) error {
	if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrNoVote) {
		err = errors.New(err.Error())
	}
	return fmt.Errorf("%s: %w", s.Nodes[i].Name, err)
}

// Timeout marks an error of a call whose time limit this package set, not the caller,
// as driver.ErrUnreachable.
func Timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return err
}
