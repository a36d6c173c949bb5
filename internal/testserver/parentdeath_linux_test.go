package testserver

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// panicVar makes TestDies the process that panics.
const panicVar = "PAWL_TESTSERVER_DYING"

// The panic is in a goroutine, where no test framework can recover it.
func TestAServerDiesWithAPanickingTestBinary(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestDies$", "-test.v")
	cmd.Env = append(os.Environ(), panicVar+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, dir := "", ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "serves ") {
			fmt.Sscanf(lines.Text(), "serves %s %s", &addr, &dir)
			break
		}
	}
	if addr == "" {
		t.Fatal("the other test binary started no server")
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // a process that panics does not clean up
	c := connect(t, addr)
	if _, _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	in.Close() // makes it panic
	if err := cmd.Wait(); err == nil {
		t.Fatal("the other test binary did not panic")
	}
	// The connection ends when the process ends.
	if b, err := c.r.ReadByte(); err == nil || os.IsTimeout(err) {
		t.Errorf("read %q, %v from a server that should be dead", b, err)
	}
}

func TestDies(t *testing.T) {
	if os.Getenv(panicVar) == "" {
		return // it is the child process of the test above
	}
	s := Start(t, fakeServer(t, "tiny"))
	fmt.Printf("serves %s %s\n", s.Addr(), s.Dir())
	os.Stdin.Read(make([]byte, 1))
	go panic("on purpose") // ends the process
	select {}
}
