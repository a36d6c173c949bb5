//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func TestKilledHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	e := openFile(t, path)
	s := session(t, e, time.Minute)

	t.Run("frees the name for a waiter well within a second", func(t *testing.T) {
		stalltest.Within(t, 500*time.Millisecond, "the turn came", func() time.Duration {
			holder, _ := start(t, "hold", path, "job")
			dead, _ := start(t, "wait", path, "job") // also in the way
			c := mutex("waiter")
			if st := enter(t, s, c); st.Held {
				t.Fatal("held beside another process")
			}
			done := make(chan time.Time)
			go func() { // received below
				awaitHeld(t, s, c)
				done <- time.Now()
			}()
			kill(t, dead)
			kill(t, holder)
			from := time.Now()
			took := (<-done).Sub(from)
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			return took
		})
	})
	t.Run("frees the name at once for a claim that does not queue", func(t *testing.T) {
		holder, _ := start(t, "hold", path, "job")
		c := mutex("trier")
		c.Queue = false
		if st := enter(t, s, c); st.Held {
			t.Fatal("held beside another process")
		}
		kill(t, holder)
		if st := enter(t, s, c); !st.Held {
			t.Errorf("still busy after the holder was killed: %+v", st)
		}
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("leaves no file", func(t *testing.T) {
		if ids, err := e.liveness.others(); err != nil || len(ids) != 0 {
			t.Errorf("left in the folder: %v, %v", ids, err)
		}
	})
	if err := e.clean(t); err != nil {
		t.Error(err)
	}
}

func TestInheritedFileKeepsTheLockUntilTheCommandIsGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := session(t, openFile(t, path), time.Minute)
	stalltest.Within(t, time.Second, "the turn came", func() time.Duration {
		wrapper, said := start(t, "wrap", path, "job")
		pid, err := strconv.Atoi(strings.TrimPrefix(said, "held by "))
		if err != nil {
			t.Fatal(said)
		}
		c := mutex("trier")
		c.Queue = false
		kill(t, wrapper)
		for range 5 {
			if st := enter(t, s, c); st.Held {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Fatal("held while the command is alive")
			}
			time.Sleep(20 * time.Millisecond) // a prober has its chance
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.Queue = true
		enter(t, s, c)
		took := awaitHeld(t, s, c)
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return took
	})
}

func TestProcessesOnOneFileExcludeEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, counter := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "counter")
	if err := os.WriteFile(counter, []byte("0 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const others = 3
	ended := make(chan error, others)
	for range others {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=hammer "+path+" "+counter)
		go func() { // received below
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			ended <- err
		}()
	}
	for range others {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	b, _ := os.ReadFile(counter)
	if n, _, _ := strings.Cut(string(b), " "); n != strconv.Itoa(others*150) {
		t.Errorf("counted %s of %d", n, others*150)
	}
	if err := openFile(t, path).clean(t); err != nil {
		t.Error(err)
	}
}

func TestBusyWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := session(t, openFile(t, path), time.Minute)
	writer, _ := start(t, "write", path)
	stalltest.Within(t, 200*time.Millisecond, "Enter with 100ms came back", func() time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		from := time.Now()
		_, err := s.Enter(ctx, mutex("a"))
		took := time.Since(from)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Enter while another process writes: %v", err)
		}
		return took
	})
	kill(t, writer)
	if st := enter(t, s, mutex("b")); !st.Held {
		t.Errorf("not held after the writer was killed: %+v", st)
	}
}

func TestCloseDoesNotWaitForAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	e, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, e, time.Minute)
	start(t, "write", path)
	ended := make(chan error)
	go func() { // received below
		_, err := s.Enter(context.Background(), mutex("a"))
		ended <- err
	}()
	from := time.Now()
	_ = e.Close() // says that the claim could not be ended, if Enter was under way by then
	if took := time.Since(from); took > 4*time.Second {
		t.Errorf("Close took %v while another process had the file", took)
	}
	if err := <-ended; err == nil {
		t.Error("Enter went through")
	}
}
