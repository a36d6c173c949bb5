package main

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A cgroup holds the command and its descendants, so that the kernel can kill them all
// at once, whatever process group or user they have. A nil *cgroup does nothing.
type cgroup struct{ path string }

// makeCgroup makes a cgroup below the one that this process is in. It returns nil where
// that is not possible: without cgroup v2, in most containers, and for users to whom
// their cgroup was not delegated.
func makeCgroup() *cgroup {
	parent := ownCgroup()
	if parent == "" {
		return nil
	}
	c := &cgroup{filepath.Join(parent, "pawl-"+strconv.Itoa(os.Getpid())+"-"+rand.Text()[:8])}
	if os.Mkdir(c.path, 0o755) != nil {
		return nil
	}
	f, err := os.OpenFile(c.killFile(), os.O_WRONLY, 0) // since Linux 5.14
	if err != nil {
		c.remove()
		return nil
	}
	f.Close()
	return c
}

// ownCgroup returns the folder of this process's cgroup; "" if there is none.
func ownCgroup() string {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	_, path, found := strings.Cut("\n"+string(cgroups), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || !found {
		return ""
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.Contains(line, " - cgroup2 ") {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// openCgroup returns the cgroup that pawl made for its guardian.
func openCgroup(path string) *cgroup {
	if path == "" {
		return nil
	}
	return &cgroup{path}
}

func (c *cgroup) name() string {
	if c == nil {
		return ""
	}
	return c.path
}

func (c *cgroup) killFile() string { return filepath.Join(c.path, "cgroup.kill") }

// startIn makes a process start in the cgroup. done is called when it has started.
func (c *cgroup) startIn(attr *syscall.SysProcAttr) (done func()) {
	if c == nil {
		return func() {}
	}
	dir, err := os.Open(c.path)
	if err != nil {
		return func() {}
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return func() { dir.Close() }
}

// members returns the processes in the cgroup.
func (c *cgroup) members() (pids []int) {
	if c == nil {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(c.path, "cgroup.procs"))
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0: in another pid namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill kills all processes in the cgroup.
func (c *cgroup) kill() {
	if c != nil {
		_ = os.WriteFile(c.killFile(), []byte("1"), 0)
	}
}

// remove removes the cgroup, and empty ones in it, of a pawl that was killed there. What
// a command that ended by itself has left running returns to pawl's own cgroup.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	for giveUp := time.Now().Add(2 * time.Second); time.Now().Before(giveUp); time.Sleep(time.Millisecond) {
		inside := []string{c.path}
		for i := 0; i < len(inside); i++ {
			below, _ := filepath.Glob(filepath.Join(inside[i], "pawl-*"))
			inside = append(inside, below...)
		}
		var err error
		for _, dir := range slices.Backward(inside) {
			err = syscall.Rmdir(dir)
		}
		if !errors.Is(err, syscall.EBUSY) {
			return
		}
		for _, pid := range c.members() {
			_ = os.WriteFile(filepath.Join(filepath.Dir(c.path), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		}
	}
}
