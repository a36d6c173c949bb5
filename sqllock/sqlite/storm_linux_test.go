package sqlite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// holders counts who holds, at one moment. A List would not do: between two of
// its pages the lock is handed on.
func holders(t *testing.T, e *Engine) (n int, err error) {
	line, err := e.Line(t.Context(), "counter")
	for _, x := range line {
		if x.Held {
			n++
		}
	}
	return n, err
}

// Processes of two boot ids open, lock, count and close, one after the other and
// side by side, while others look, in files that come and go.
func TestLocksHoldBetweenBootIDsWhileOthersLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, counter := filepath.Join(dir, "pawl.db"), writeFile(t, filepath.Join(dir, "counter"), "0 0")
	id := writeFile(t, filepath.Join(dir, "id"), "5c0ffee5-0000-4000-8000-000000000003\n")
	if e, err := Open(t.Context(), path); err != nil || e.Close() != nil {
		t.Fatal(err)
	}
	const processes, rounds = 4, 3
	ended := make(chan error, processes)
	for i := range processes {
		go func() { // received below
			var err error
			for range rounds {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), roleEnv+"=hammer "+path+" "+counter)
				if i%2 == 0 {
					cmd.Env = append(os.Environ(), strings.Join([]string{roleEnv + "=mounted", id, bootFile, "hammer", path, counter}, " "))
					cmd.SysProcAttr = apart(t)
				}
				if out, e := cmd.CombinedOutput(); e != nil {
					err = errors.Join(err, fmt.Errorf("%w: %s", e, out))
				}
			}
			ended <- err
		}()
	}
	stays := openFile(t, path, WithReadOnly())
	looks, seen := 0, 0
	for left := processes; left > 0; looks++ {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			left--
		default:
		}
		for _, look := range []func() (int, error){
			func() (int, error) { return holders(t, stays) },
			func() (int, error) {
				v, err := Open(t.Context(), path, WithReadOnly())
				if err != nil {
					return 0, err
				}
				held, err := holders(t, v)
				return held, errors.Join(err, v.Close())
			},
		} {
			held, err := look()
			if held > 1 || err != nil {
				t.Errorf("look %d: %d hold, %v", looks, held, err)
			}
			seen += held
		}
	}
	t.Logf("%d looks saw %d holders", looks, seen)
	if seen == 0 {
		t.Error("no look saw a holder")
	}
	b, _ := os.ReadFile(counter)
	if n, _, _ := strings.Cut(string(b), " "); n != strconv.Itoa(processes*rounds*150) {
		t.Errorf("counted %s of %d", n, processes*rounds*150)
	}
	if err := openFile(t, path).clean(t); err != nil {
		t.Error(err)
	}
}
