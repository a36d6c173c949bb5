package testserver

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// dying asks TestDies to be the test that panics.
const panicVar = "PAWL_TESTSERVER_DYING"

// The panic must be one that no test framework catches: that of a goroutine.
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
	t.Cleanup(func() { os.RemoveAll(dir) }) // who panics cleans up nothing
	c := connect(t, addr)
	if _, _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	in.Close() // now it panics
	if err := cmd.Wait(); err == nil {
		t.Fatal("the other test binary did not panic")
	}
	// The end of the connection tells of the end of the process.
	if b, err := c.r.ReadByte(); err == nil || os.IsTimeout(err) {
		t.Errorf("read %q, %v from a server that should be dead", b, err)
	}
}

func TestDies(t *testing.T) {
	if os.Getenv(panicVar) == "" {
		return // it is half of the test above
	}
	s := Start(t, fakeServer(t, "tiny"))
	fmt.Printf("serves %s %s\n", s.Addr(), s.Dir())
	os.Stdin.Read(make([]byte, 1))
	go panic("on purpose") // ends the process
	select {}
}
