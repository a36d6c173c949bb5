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

// resume does nothing, because pause is not supported.
func (p *process) resume() error { return nil }

// A user is unused: servers run as the test's user.
type user struct{}

func pickUser([]string) (*user, error) { return nil, nil }

func (*user) chown(string) error { return nil }
