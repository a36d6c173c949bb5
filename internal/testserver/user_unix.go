//go:build unix

package testserver

import (
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"strings"
	"syscall"
)

// A user is the user of a server if the test runs as root. Nil is valid: the user
// of the test.
type user struct {
	uid, gid int
}

// pickUser returns the first of names that exists, or nil if none is given or the
// test cannot change users.
func pickUser(names []string) (*user, error) {
	if len(names) == 0 || os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		found, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(found.Gid)
		if err != nil {
			continue
		}
		return &user{uid, gid}, nil
	}
	return nil, fmt.Errorf("must not run as root, and there is no user %s", strings.Join(names, " or "))
}

// chown gives the folder to u.
func (u *user) chown(dir string) error {
	if u == nil {
		return nil
	}
	return os.Chown(dir, u.uid, u.gid)
}

func (u *user) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
}
