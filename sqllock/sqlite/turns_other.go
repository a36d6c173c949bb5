//go:build !linux

package sqlite

import "context"

// Turns are not told on this system: waiters poll.
type turnPipe struct{}

const (
	turnSuffix = ".turn"
	turnCame   = 't'
	turnFirst  = 'f'
)

func makeTurnPipe(string, string) *turnPipe           { return nil }
func (*turnPipe) close()                              {}
func (*turnPipe) reaches() bool                       { return false }
func (*turnPipe) canTell(string, string) bool         { return false }
func (*turnPipe) receive(context.Context, func(byte)) {}
func sendTurn(dir, id string, what byte)              {}
