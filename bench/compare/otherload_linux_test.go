package compare

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestOwnWorkIsNoDisturbance(t *testing.T) {
	o := &otherLoad{}
	o.start()
	before := ticks(os.Getpid())
	for begun := time.Now(); ticks(os.Getpid()) < before+20*tick; { // it measures its own work
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the kernel counts no time of this program")
		}
	}
	mine, now := ticks(os.Getpid())-before, o.read()
	ours, busy := now.ours-o.last.ours, now.busy-o.last.busy
	if !now.known || ours < mine {
		t.Errorf("%v of %v are known for ours: %+v", ours, mine, now)
	}
	total := busy + now.idle - o.last.idle
	if share, want := now.since(o.last), max(float64(busy-ours)/float64(total), 0); share != want {
		t.Errorf("others used %.2f, not %.2f: %v busy, %v of it ours", share, want, busy, ours)
	}
}

// Children belong to the thread that started them, which is not always the first.
func TestChildrenOfEveryThreadAreKnown(t *testing.T) {
	started := make(chan *exec.Cmd)
	for range 4 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			cmd := exec.Command("sleep", "60")
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			started <- cmd
		}()
	}
	for range 4 {
		cmd := <-started
		if cmd.Process == nil {
			continue
		}
		if !slices.Contains(children(os.Getpid()), cmd.Process.Pid) {
			t.Errorf("child %d is not known", cmd.Process.Pid)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
}

// A server may have a process per connection, which ends with it.
func TestWorkOfAServersChildThatHasEndedIsNoDisturbance(t *testing.T) {
	server := exec.Command("sh", "-c", `(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); echo; cat`)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o := &otherLoad{}
	before := o.read().ours
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the child has ended
		t.Error(err)
	}
	worked := endedChildrenTime(server.Process.Pid)
	if mine := o.read().ours - before; worked < 2*tick || mine < worked {
		t.Errorf("%v are known of %v", mine, worked)
	}
	_ = in.Close()
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}
