//go:build !windows && (!unix || solaris || aix)

package fence

import (
	"errors"
	"os"
)

// lockFile fails: without a lock that ends with its process, a check would not be one.
func lockFile(path string) (unlock func(), err error) {
	return nil, &os.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
