//go:build !linux

package sqlite

import (
	"context"
	"errors"
)

// Turns are not told on this system: waiters poll.
type turnSocket struct{}

const (
	turnSuffix = ".turn"
	turnCame   = 't'
	turnFirst  = 'f'
)

func makeTurnSocket(string, string) *turnSocket         { return nil }
func (*turnSocket) close()                              {}
func (*turnSocket) receive(context.Context, func(byte)) {}
func sendTurn(string, string, ...byte) (uint32, error)  { return 0, errors.ErrUnsupported }
