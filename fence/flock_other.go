//go:build !windows && (!unix || solaris || aix)

package fence

import (
	"errors"
	"os"
)

// lockFile fails: there is no lock here that ends with its process.
func lockFile(path string) (unlock func(), err error) {
	return nil, &os.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
