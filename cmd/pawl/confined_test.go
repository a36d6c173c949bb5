//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A confinement is a place where pawl has less than usual to end its command with, as
// listed in docs/run.md.
type confinement struct {
	where   string
	pids    bool     // in its own pid namespace
	mounts  string   // shell command before pawl, in its own mount namespace
	before  []string // command line before pawl
	command []string // command line before the command
	cgroup  bool     // in a cgroup that belongs to the user
	says    string   // when the lock is lost
	warns   bool     // before the command starts
}

const (
	hideProcesses = `mount -t proc -o hidepid=2 proc /proc && mount -t tmpfs none /sys/fs/cgroup`
	noProc        = `mount -t tmpfs none /proc`
	noCgroup      = `mount -t tmpfs none /sys/fs/cgroup`
	stopping      = `; stopping `
	notPermitted  = `; TERM cannot be sent to sudo: operation not permitted (KILL in `
	userID        = "1700000000"
	otherUserID   = "1700000001"
)

var (
	ordinaryUser = []string{"setpriv", "--reuid=" + userID, "--regid=" + userID, "--clear-groups"}
	withoutKill  = []string{"setpriv", "--bounding-set=-kill", "--inh-caps=-kill"}
	asOther      = []string{"./sudo", "--reuid=" + otherUserID, "--regid=" + otherUserID, "--clear-groups"}
)

var confinements = []confinement{
	{where: "nothing is withheld", mounts: noCgroup, says: stopping},
	{where: "`/proc` hides processes (`hidepid=2`, `ProtectProc=invisible`), the command is not dumpable", pids: true, mounts: hideProcesses, before: ordinaryUser, says: stopping},
	{where: "no `/proc`, as in a chroot", mounts: noProc, before: ordinaryUser, says: stopping},
	{where: "a container in which root lacks CAP_KILL, the command has another user", mounts: noCgroup, before: withoutKill, command: asOther, says: stopping},
	{where: "a user who is not root, the command has another user (`sudo`)", mounts: noCgroup, before: ordinaryUser, command: asOther, says: notPermitted},
	{where: "the same, in a cgroup that belongs to the user", mounts: "true", before: ordinaryUser, command: asOther, cgroup: true, says: notPermitted},
	{where: "no `/proc`, and orphans cannot be adopted (seccomp)", mounts: noProc, before: append(ordinaryUser, "nosubreaper"), says: stopping, warns: true},
}

// The processes of the command: itself, one in its process group, one that left it, and
// one that left it and whose parent has ended.
var family = []string{"main", "group", "apart", "orphan"}

const (
	familyScript = `./hidden lives group & setsid ./hidden lives apart & (setsid ./hidden lives orphan &)
until [ -s alive.group ] && [ -s alive.apart ] && [ -s alive.orphan ]; do sleep 0.02; done
echo $PAWL_LOCK_TOKEN >token; set -- main; . ./lives`
	livesScript = `trap 'echo x >>term.$1' TERM; while :; do echo x >>alive.$1; sleep 0.02; done`
)

// TestTheTableOfWhatPawlCanEndIsTrue starts a command in every place that has a row in
// docs/run.md, stops pawl in one run and breaks the lock in another, and compares the
// row with the processes that received TERM and that had ended when another held the
// lock.
func TestTheTableOfWhatPawlCanEndIsTrue(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can change users and mount")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "run.md"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("pawl")
	if err == nil {
		err = os.Chmod(filepath.Dir(filepath.Dir(program)), 0o755) // so that other users find it
	}
	if err != nil {
		t.Fatal(err)
	}
	redis := testserver.Redis(t) // SQLite needs /proc
	for _, c := range confinements {
		t.Run(c.where, func(t *testing.T) {
			t.Parallel()
			if c.cgroup && ownCgroup() == "" {
				t.Skip("this machine has no cgroup v2")
			}
			stalltest.Succeeds(t, 100*time.Millisecond, func() error { // in which a killer that is late lets processes go on
				row := fmt.Sprintf("| %s | %s | %s |", c.where, c.whomTermReaches(t, redis.Addr()), c.whomKillReaches(t, redis.Addr()))
				if !strings.Contains(string(text), row+"\n") {
					return fmt.Errorf("docs/run.md lacks the row\n%s", row)
				}
				return nil
			})
		})
	}
}

// whomTermReaches breaks the lock and returns which processes have received TERM.
func (c confinement) whomTermReaches(t *testing.T, redis string) string {
	env, cmd := c.start(t, redis, "--ttl", "8s", "--kill-after", "3s") // time for a shell to handle TERM
	env.evict("x", "token")
	if code := exitOf(t, cmd.Wait()); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
	said := env.read("said")
	if !strings.Contains(said, c.says) {
		t.Errorf("pawl has not said %q when the lock was lost:\n%s", c.says, said)
	}
	before, _, _ := strings.Cut(said, "pawl: lost ") // the race detector warns too
	if warned := strings.Contains(before, "pawl: warning: "); warned != c.warns {
		t.Errorf("pawl has warned before the command: %v, want %v:\n%s", warned, c.warns, said)
	}
	lives := len(env.processes("./hidden")) > 0
	if says := strings.Contains(said, "not all processes of sudo could be ended"); lives && !c.warns && !says {
		t.Errorf("pawl has not said that processes run on:\n%s", said)
	} else if says && !lives {
		t.Errorf("pawl has said that processes run on, and none does:\n%s", said)
	}
	return which(func(who string) bool { return env.size("term."+who) > 0 })
}

// whomKillReaches stops pawl and returns which processes have ended when another has
// the lock.
func (c confinement) whomKillReaches(t *testing.T, redis string) string {
	env, cmd := c.start(t, redis, "--ttl", "4s", "--kill-after", "1s")
	pawl := 0
	for pid := range env.processes("pawl", "run") {
		pawl = pid
	}
	if err := syscall.Kill(pawl, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if rival := env.run("pawl", "run", "-w", "25s", "x", "--", "sh", "-c", `wc -c alive.* >first; sleep 0.5; wc -c alive.* >second`); rival.code != 0 {
		t.Fatalf("a rival: %+v", rival)
	}
	ended := which(func(who string) bool { return env.lineWith("first", who) == env.lineWith("second", who) })
	_ = syscall.Kill(pawl, syscall.SIGCONT)
	if code := exitOf(t, cmd.Wait()); code != exitLost {
		t.Errorf("exit code %d, want %d: %s", code, exitLost, env.read("said"))
	}
	return ended
}

// which describes the processes of the command to which something applies.
func which(applies func(who string) bool) string {
	all := slices.DeleteFunc(slices.Clone(family), func(who string) bool { return !applies(who) })
	switch strings.Join(all, " ") {
	case "":
		return "none"
	case "main group":
		return "the command and its process group"
	case strings.Join(family, " "):
		return "all"
	}
	return fmt.Sprint(all)
}

// start starts a command in the confinement.
func (c confinement) start(t *testing.T, redis string, flags ...string) (*testEnv, *exec.Cmd) {
	env := newTestEnv(t)
	env = env.with("PAWL_STORE=redis://" + redis + "?prefix=" + filepath.Base(filepath.Dir(env.dir)) + ":")
	env.write("family", familyScript)
	env.write("lives", livesScript)
	for from, to := range map[string]string{"sh": "hidden", "setpriv": "sudo"} {
		if out, err := env.command("sh", "-c", `cp "$(command -v $0)" $1`, from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for file, mode := range map[string]os.FileMode{
		"hidden": 0o111, // a program that its user cannot read is not dumpable
		"sudo":   0o755 | os.ModeSetuid, "family": 0o644, "lives": 0o644, ".": 0o777, "..": 0o755,
	} {
		if err := os.Chmod(env.path(file), mode); err != nil {
			t.Fatal(err)
		}
	}
	own := []string{"--mount"}
	if c.pids {
		own = append(own, "--pid", "--fork")
	}
	enter := ""
	if c.cgroup {
		enter = "echo $$ >" + delegatedCgroup(t) + "/cgroup.procs && "
	}
	cmd := env.command("unshare", slices.Concat(own, []string{"sh", "-c", enter + c.mounts + ` && "$@"; exit $?`, "sh"}, c.before,
		[]string{"pawl", "run"}, flags, []string{"x", "--"}, c.command, []string{"./hidden", "family"})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := os.Create(env.path("said")) // a file: a process that lives on would keep a pipe open
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return env.size("token") > 0 }) {
		t.Fatalf("the command does not start: %s", env.read("said"))
	}
	return env, cmd
}

// delegatedCgroup makes a cgroup that belongs to the ordinary user.
func delegatedCgroup(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(ownCgroup(), "pawl-test-")
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		if !eventually(func() bool { return os.Remove(dir) == nil || errors.Is(syscall.Rmdir(dir), syscall.ENOENT) }) {
			t.Errorf("pawl has left something in its cgroup: %v", syscall.Rmdir(dir))
		}
	})
	uid, _ := strconv.Atoi(userID)
	for _, file := range []string{dir, filepath.Join(dir, "cgroup.procs")} {
		if err := os.Chown(file, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// size returns the size of a file; 0 if there is none.
func (env *testEnv) size(name string) int64 {
	info, err := os.Stat(env.path(name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// lineWith returns the line of a file that contains a word.
func (env *testEnv) lineWith(file, word string) string {
	env.t.Helper()
	for line := range strings.Lines(env.read(file)) {
		if strings.Contains(line, word) {
			return line
		}
	}
	env.t.Fatalf("%s does not name %s", file, word)
	return ""
}

// processes returns the processes that work in the folder and whose command lines
// begin with some words.
func (env *testEnv) processes(begin ...string) map[int]bool {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	found := map[int]bool{}
	for _, link := range links {
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		words := strings.Split(string(line), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if at, _ := os.Readlink(link); err == nil && at == env.dir && len(words) > len(begin) && slices.Equal(words[:len(begin)], begin) && running(pid) {
			found[pid] = true
		}
	}
	return found
}

// A sandbox may keep the guardian from passing the command's pidfd to pawl.
func TestACommandIsStartedWherePidfdsCannotBePassedOn(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	if p := env.run("nosendmsg", "pawl", "run", "x", "--", "sh", "-c", "exit 7"); p.code != 7 {
		t.Errorf("%+v", p)
	}
	ended := env.startAndWait(env.command("nosendmsg", "pawl", "run", "--ttl", "2s", "--kill-after", "500ms", "y", "--",
		"sh", "-c", `trap "" TERM; echo $PAWL_LOCK_TOKEN >token; while :; do sleep 0.05; done`))
	env.evict("y", "token")
	checkExit(t, ended, exitLost)
}

func init() {
	programs["nosubreaper"] = func() { // cannot adopt orphans
		runFiltered(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER)
	}
	programs["nosendmsg"] = func() { runFiltered(unix.SYS_SENDMSG, -1) }
}

// runFiltered runs the program of its arguments, which cannot make a system call with a
// first argument; -1: with any.
func runFiltered(call uint32, argument int) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // its first argument
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(argument), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if argument < 0 {
		filter[3] = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	path := ""
	if err == nil {
		path, err = exec.LookPath(os.Args[1])
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
