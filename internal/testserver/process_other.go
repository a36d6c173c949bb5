//go:build !unix

package testserver

import (
	"errors"
	"os"
	"syscall"
)

// terminate is the only signal there is.
var terminate = os.Kill

func attributes(*user) *syscall.SysProcAttr { return nil }

func (p *process) pause() error { return errors.ErrUnsupported }

// resume has nothing to do where nothing can be paused.
func (p *process) resume() error { return nil }

// A user is nobody here: a server runs as who runs the test.
type user struct{}

func pickUser([]string) (*user, error) { return nil, nil }

func (*user) chown(string) error { return nil }
