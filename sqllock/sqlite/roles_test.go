//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// The test binary plays other processes: a role, and what it needs.
const roleEnv = "PAWL_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, args, _ := strings.Cut(os.Getenv(roleEnv), " ")
	if role == "" {
		flag.Parse()
		// The laws wait for expiries more than they work.
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	if err := roles[role](strings.Fields(args)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

var roles = map[string]func([]string) error{
	// hold takes a name with a long life, says so and waits to be killed.
	"hold": func(args []string) error {
		if _, err := roleHold(args[0], args[1]); err != nil {
			return err
		}
		fmt.Println("held")
		return idle()
	},
	// wait stands in line behind somebody and never looks.
	"wait": func(args []string) error {
		if _, err := roleHold(args[0], args[1]); err == nil {
			return errors.New("the name was free")
		}
		fmt.Println("waits")
		return idle()
	},
	// wrap holds a name and starts a command that inherits the liveness file.
	"wrap": func(args []string) error {
		e, err := roleHold(args[0], args[1])
		if err != nil {
			return err
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=idle")
		cmd.ExtraFiles = []*os.File{e.LiveFile()}
		if err := cmd.Start(); err != nil {
			return err
		}
		fmt.Println("held by", cmd.Process.Pid)
		return idle()
	},
	// idle does nothing for longer than any test takes.
	"idle": func([]string) error { return idle() },
	// write keeps the file's write lock.
	"write": func(args []string) error {
		ck, err := systemClock()
		if err != nil {
			return err
		}
		c, err := openConn(context.Background(), args[0], ck, nil)
		if err != nil {
			return err
		}
		if err := c.retry(context.Background(), func() error { return c.exec(begin) }); err != nil { // a beat may have it
			return err
		}
		fmt.Println("writing")
		return idle()
	},
	// hammer counts up in a file, under a lock.
	"hammer": func(args []string) error { return hammer(args[0], args[1], 150) },
}

func idle() error {
	time.Sleep(time.Minute)
	return nil
}

func roleHold(path, name string) (*Engine, error) {
	e, err := Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	s, err := e.Open(context.Background(), driver.SessionOptions{ID: "other", TTL: time.Minute})
	if err != nil {
		return nil, err
	}
	st, err := s.Enter(context.Background(), driver.Claim{ID: fmt.Sprint("pid", os.Getpid()), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true})
	if err == nil && !st.Held {
		err = errors.New("not held")
	}
	return e, err
}

// start runs a role until the test ends and returns what it says first.
func start(t *testing.T, role string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	return startAs(t, nil, role, args...)
}

// startAs is start with attributes of the process.
func startAs(t *testing.T, as *syscall.SysProcAttr, role string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = as
	cmd.Env = append(os.Environ(), roleEnv+"="+role+" "+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && err != io.EOF || strings.HasPrefix(said, "error:") {
		t.Fatalf("%s: %q, %v", role, said, err)
	}
	return cmd, strings.TrimSpace(said)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

// hammer takes a name and counts up in a file that nothing else protects.
func hammer(path, counter string, times int) error {
	ctx := context.Background()
	e, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer e.Close()
	s, err := e.Open(ctx, driver.SessionOptions{ID: fmt.Sprint("s", os.Getpid()), TTL: 10 * time.Second})
	if err != nil {
		return err
	}
	for i := range times {
		c := driver.Claim{ID: fmt.Sprintf("%d-%d", os.Getpid(), i), Try: 1, Name: "counter", Need: 1, Limit: 1, Queue: true}
		st, err := s.Enter(ctx, c)
		for err == nil && !st.Held {
			st, err = s.Await(ctx, c, st)
		}
		if err != nil {
			return err
		}
		b, err := os.ReadFile(counter)
		if err != nil {
			return err
		}
		n, last := int64(0), uint64(0)
		fmt.Sscan(string(b), &n, &last)
		if st.Token <= last {
			return fmt.Errorf("token %d follows %d", st.Token, last)
		}
		if err := os.WriteFile(counter, fmt.Append(nil, n+1, " ", st.Token), 0o600); err != nil {
			return err
		}
		if err := s.Leave(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
