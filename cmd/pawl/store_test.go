//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLocalStoreIsFoundWithoutSessionVariables(t *testing.T) {
	before, err := stateFolder()
	if err != nil || !filepath.IsAbs(before) {
		t.Fatal(before, err)
	}
	for _, key := range []string{"HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "USER", "LOGNAME", "TMPDIR"} {
		t.Setenv(key, t.TempDir())
	}
	if after, err := stateFolder(); after != before || err != nil {
		t.Errorf("with other session variables: %q, %v; before %q", after, err, before)
	}
	for _, key := range []string{"HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "USER", "LOGNAME", "TMPDIR"} {
		os.Unsetenv(key)
	}
	if after, err := stateFolder(); after != before || err != nil {
		t.Errorf("with none: %q, %v; before %q", after, err, before)
	}
	if base := filepath.Base(before); base != "pawl" || strings.Contains(before, "..") {
		t.Errorf("the folder is %q", before)
	}
}
