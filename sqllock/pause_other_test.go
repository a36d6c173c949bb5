//go:build !unix

package sqllock_test

import (
	"errors"
	"os"
)

var errPause = errors.New("a process cannot be stopped here")

func pause(*os.Process) error  { return errPause }
func resume(*os.Process) error { return errPause }
