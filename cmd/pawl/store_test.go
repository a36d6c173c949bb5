//go:build unix

package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
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

func TestAFilesURLIsReadAsItsPath(t *testing.T) {
	for _, path := range []string{"/home/ana/locks.db", "/a@b/c:d/100%/#?.db", "C:/Users/ana/pawl/locks.db", "C:/a@b/100%/#?.db"} {
		u, err := driver.ParseURL(fileURL(path, "mode=ro").String())
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got := u.Path
		if u.Opaque != "" {
			got, err = url.PathUnescape(u.Opaque)
		}
		if got != path || err != nil || u.Host != "" || u.RawQuery != "mode=ro" {
			t.Errorf("%s: %q, %v, in %s", path, got, err, u)
		}
	}
}
