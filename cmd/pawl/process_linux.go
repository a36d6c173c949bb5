package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is the command, as its guardian and pawl know it. Its pid may belong to
// another process after the guardian has reaped it; a pidfd never does.
type process struct {
	pid   int
	pidfd *os.File // nil: the kernel has none (before Linux 5.4)
}

// certain reports whether pid is still the command's: the pidfd says so with each
// call, and the pid of a child stays until it is reaped.
func (p process) certain() bool { return p.pidfd != nil || isChild(p.pid) }

// send sends n to the process.
func (p process) send(n syscall.Signal) error {
	return asOwner(p.pid, func() error {
		if p.pidfd == nil {
			return syscall.Kill(p.pid, n)
		}
		return unix.PidfdSendSignal(int(p.pidfd.Fd()), n, nil, 0)
	})
}

// sendGroup sends n to the process group that the process began with.
func (p process) sendGroup(n syscall.Signal) error {
	return asOwner(p.pid, func() error {
		if p.pidfd == nil {
			return syscall.Kill(-p.pid, n)
		}
		err := unix.PidfdSendSignal(int(p.pidfd.Fd()), n, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
		if err != unix.EINVAL { // EINVAL: before Linux 6.9
			return err
		}
		if err := unix.PidfdSendSignal(int(p.pidfd.Fd()), 0, nil, 0); err != nil {
			return err
		}
		return syscall.Kill(-p.pid, n)
	})
}

// kill sends n to a process.
func kill(pid int, n syscall.Signal) error {
	return asOwner(pid, func() error { return syscall.Kill(pid, n) })
}

// asOwner calls send, and again as the user whom the process pid belongs to if it is
// not permitted. Root without CAP_KILL, as in some containers, needs that for a command
// that has changed its user.
func asOwner(pid int, send func() error) error {
	err := send()
	if err != syscall.EPERM || syscall.Geteuid() != 0 || strconv.IntSize == 32 { // there the call takes 16-bit user ids
		return err
	}
	uid, known := userOf(pid)
	if !known {
		return err
	}
	done := make(chan error)
	go func() {
		// This system call changes the user of one thread, not of the program. The
		// thread ends with this goroutine, because it stays locked.
		runtime.LockOSThread()
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); failed != 0 {
			done <- err
			return
		}
		done <- send()
	}()
	return <-done
}

// userOf returns the real user id of a process.
func userOf(pid int) (uid int, known bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, line, _ := strings.Cut(string(status), "\nUid:\t")
	uid, err = strconv.Atoi(line[:max(0, strings.IndexByte(line, '\t'))])
	return uid, err == nil
}

// prepareToKeep makes the kernel kill the command when the guardian dies, and return
// its pidfd.
func prepareToKeep(attr *syscall.SysProcAttr, pidfd *int) {
	attr.Pdeathsig = syscall.SIGKILL
	attr.PidFD = pidfd
}

// isChild reports whether a process is a child of this one that was not reaped. It
// needs no /proc.
func isChild(pid int) bool { return waitable(unix.P_PID, pid) }

// hasChildren reports whether this process has children, reaped ones excluded.
func hasChildren() bool { return waitable(unix.P_ALL, 0) }

func waitable(kind, pid int) bool {
	for {
		err := unix.Waitid(kind, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
