package sqlitefile

import "testing"

// The list that kernels before 5.8 are asked by says the same.
func TestMountsAreListed(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/": true, "/proc": true, "/proc/self/mountinfo": false, t.TempDir(): false} {
		if got := isListedMount(path); got != want {
			t.Errorf("%s is listed as a mount: %v", path, got)
		}
		if got := IsMountPoint(path); got != want {
			t.Errorf("%s is a mount: %v", path, got)
		}
	}
}
