// Package browser tests the pages of pawl serve in a real Chromium, on real stores, and
// the page that pawl verify writes.
//
// PAWL_SCREENSHOTS names a folder in which the tests leave pictures of the pages.
package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/recipetest"
)

// TestMain ends what the tests share: the browser, the servers, and the folder with
// the programs.
func TestMain(m *testing.M) {
	code := recipetest.MainParallel(m, 3)
	if err := errors.Join(chromium.end(), os.RemoveAll(programs.dir)); err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

// programs are the pawl command and what helps the tests, built when the first test
// needs them.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of a program.
func program(t *testing.T, name string) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "pawl-programs-"); programs.err == nil {
			programs.err = errors.Join(build(filepath.Join("..", ".."), "./cmd/pawl", "./cmd/pawl/internal/verifyreport/renderreport"), build(".", "./crowd"))
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return filepath.Join(programs.dir, name)
}

// build builds programs of the module that dir is in.
func build(dir string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", programs.dir + string(filepath.Separator)}, packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
