package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// roleEnv tells a process of this program what it is. Nothing: the command.
const roleEnv = "PAWL_SCALE"

// A spec is what a process that does one step is told.
type spec struct {
	cell
	N     int
	TTL   time.Duration
	Take  time.Duration // in which all must be held or in line
	Limit time.Duration // after which the step ends without a verdict
}

// child does the work of a child process and exits, if this is one. It ends with its
// input, and so with its parent.
func child() {
	role := os.Getenv(roleEnv)
	if role == "" {
		return
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err == nil {
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, in)
			os.Exit(1)
		}()
		switch role {
		case "step":
			err = serveStep(line)
		case "link":
			err = serveLink(line)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startRole starts a child with its first line of input. closing its input ends it.
func startRole(ctx context.Context, role, line string, env ...string) (cmd *exec.Cmd, in io.Closer, out io.Reader, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	cmd.Stderr = os.Stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	_, err = io.WriteString(w, line+"\n")
	return cmd, w, out, err
}

// grace is what a step has beyond its limit to start and stop its servers.
const grace = 45 * time.Second

// runStep runs one step in a process of its own. One that does not end is killed, and its
// servers with it: that is a fault of what is measured.
func runStep(ctx context.Context, s spec) (step, error) {
	folder, err := os.MkdirTemp("", "pawl-scale-")
	if err != nil {
		return step{}, err
	}
	defer os.RemoveAll(folder) // with what servers that were killed have left
	if err := os.Chmod(folder, 0o755); err != nil {
		return step{}, err // some servers run as users of their own
	}
	line, err := json.Marshal(s)
	if err != nil {
		return step{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.Limit+grace)
	defer cancel()
	cmd, in, out, err := startRole(bounded, "step", string(line), "TMPDIR="+folder)
	if err != nil {
		return step{}, err
	}
	defer in.Close()
	text, _ := io.ReadAll(out) // Wait has the error
	err = cmd.Wait()
	if ctx.Err() != nil {
		return step{}, ctx.Err()
	}
	got := step{N: s.N}
	switch {
	case bounded.Err() != nil:
		got.Late, got.Fault = true, fmt.Sprintf("did not come to an end in %v", s.Limit)
		return got, nil
	case err != nil:
		return got, err
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &got); err != nil {
		return got, fmt.Errorf("%w in %q", err, text)
	}
	if got.Error != "" {
		return got, fmt.Errorf("%s", got.Error)
	}
	return got, nil
}

// serveStep does one step and prints what came of it.
func serveStep(line string) error {
	var s spec
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		return err
	}
	var got step
	err := testserver.RunOutsideTest(func(t testing.TB) { got = perform(t, s) })
	if err != nil {
		got = step{N: s.N, Error: err.Error()}
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// startLink starts a process that is the way to addr, with a round trip that is ms longer.
// It is a process of its own because of its connections: of a thousand clients there are
// more than a process may have.
func startLink(t testing.TB, addr string, ms int) string {
	cmd, in, out, err := startRole(context.Background(), "link", addr+" "+strconv.Itoa(ms))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it exits with 1 at the end of its input
	})
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("link to %s: %v", addr, err)
	}
	return strings.TrimSpace(link)
}

// serveLink delays what comes from a server until its input ends.
func serveLink(line string) error {
	addr, delay, _ := strings.Cut(strings.TrimSpace(line), " ")
	ms, err := strconv.Atoi(delay)
	if err != nil {
		return err
	}
	return testserver.RunOutsideTest(func(t testing.TB) {
		p := faultproxy.New(t, addr)
		p.Delay(faultproxy.ToClient, time.Duration(ms)*time.Millisecond) // in one direction: a timer takes a millisecond
		fmt.Println(p.Addr())
		select {} // until the input ends
	})
}
