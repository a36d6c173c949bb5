package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A turnPipe is the pipe through which other processes tell this one that its turn has come,
// so that of all that wait for a name only the one that is granted it wakes. It lies
// beside the liveness file, with turnSuffix after its name, and is open to its user
// alone.
//
// Nothing depends on it: a process that is not told, because the other was stopped or
// killed between its commit and the write, or the pipe is full or was removed, looks for
// itself every now and then.
type turnPipe struct{ pipe *os.File }

const turnSuffix = ".turn"

// What is written into a pipe, a byte each.
const (
	turnCame  = 't' // claims of the process were granted or have ended
	turnFirst = 'f' // a claim of the process is the first that waits
)

// makeTurnPipe makes a process's pipe; nil where the file system has none, and then its
// waiters poll.
func makeTurnPipe(dir, id string) *turnPipe {
	path := filepath.Join(dir, id+turnSuffix)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil
	}
	// Opened for writing as well, so that it never ends for want of a writer.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		os.Remove(path)
		return nil
	}
	return &turnPipe{os.NewFile(uintptr(fd), path)}
}

func (t *turnPipe) close() {
	if t != nil {
		os.Remove(t.pipe.Name())
		_ = t.pipe.Close() // nothing is lost
	}
}

// reaches reports whether what another process writes gets here: the pipe is still at its
// place.
func (t *turnPipe) reaches() bool {
	ours, err := t.pipe.Stat()
	there, terr := os.Lstat(t.pipe.Name())
	return err == nil && terr == nil && os.SameFile(ours, there)
}

// canTell reports whether the process with an id tells others of their turns, this one
// included: it has a pipe of the same user.
func (t *turnPipe) canTell(dir, id string) bool {
	ours, err := t.pipe.Stat()
	theirs, terr := os.Lstat(filepath.Join(dir, id+turnSuffix))
	if err != nil || terr != nil || theirs.Mode().Type() != os.ModeNamedPipe {
		return false
	}
	a, aok := ours.Sys().(*syscall.Stat_t)
	b, bok := theirs.Sys().(*syscall.Stat_t)
	return aok && bok && a.Uid == b.Uid
}

// receive calls heard for each byte that others write, until ctx ends.
func (t *turnPipe) receive(ctx context.Context, heard func(byte)) {
	_ = t.pipe.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = t.pipe.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [256]byte
	for {
		n, err := t.pipe.Read(b[:])
		if err != nil {
			return
		}
		for _, x := range b[:n] {
			heard(x)
		}
	}
}

// sendTurn writes what into the pipe of the process with an id. It never blocks: nobody
// reads the pipe of a dead process, and a stopped one has as much as it needs in it.
func sendTurn(dir, id string, what byte) {
	fd, err := unix.Open(filepath.Join(dir, id+turnSuffix), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO { // no file that somebody has put there
		_, _ = unix.Write(fd, []byte{what})
	}
}
