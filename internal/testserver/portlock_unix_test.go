//go:build unix

package testserver

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func TestAPortIsReservedAmongProcesses(t *testing.T) {
	t.Parallel()
	// reserve has another process reserve the port until end is called.
	reserve := func(port int) (got string, end func()) {
		cmd := exec.Command(os.Args[0], strconv.Itoa(port))
		cmd.Env = append(os.Environ(), roleVar+"=reserve")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got, err = bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return got, func() { in.Close(); _ = cmd.Wait() }
	}
	port := FreePort(t)
	if got, end := reserve(port); got != "false\n" {
		t.Errorf("another process reserves a port of this one: %s", got)
	} else {
		end()
	}
	other := port - 1
	for !reservePort(other) {
		other--
	}
	releasePort(other)
	got, end := reserve(other)
	if got != "true\n" {
		t.Fatalf("another process cannot reserve a port that was released: %s", got)
	}
	if reservePort(other) {
		t.Error("this process reserves a port of another")
	}
	end()
	if !reservePort(other) {
		t.Error("a port is reserved after its process has ended")
	}
	releasePort(other)
}
