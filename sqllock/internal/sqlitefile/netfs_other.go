//go:build !linux && !darwin

package sqlitefile

import "strings"

// NetworkKind recognises a share by its path; a mounted drive is not noticed.
func NetworkKind(dir string) (string, error) {
	if strings.HasPrefix(dir, `\\`) {
		return "a network share", nil
	}
	return "", nil
}
