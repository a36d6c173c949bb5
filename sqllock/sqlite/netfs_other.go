//go:build !linux && !darwin

package sqlite

import "strings"

// networkKind recognises a share by its path; a mounted drive is not noticed.
func networkKind(dir string) (string, error) {
	if strings.HasPrefix(dir, `\\`) {
		return "a network share", nil
	}
	return "", nil
}
