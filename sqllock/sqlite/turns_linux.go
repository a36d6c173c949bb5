package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A turnSocket is the datagram socket through which other processes tell this one that its
// turn has come, so that of all that wait for a name only the one that is granted it
// wakes. It lies beside the liveness file, with turnSuffix after its name, and is open to
// its user alone. A program that reads every file of a folder cannot open it; at a pipe it
// would wait for ever.
//
// Nothing depends on it: a process that is not told, because the other was stopped or
// killed between its commit and the note, or the socket was removed, looks for itself
// every now and then.
type turnSocket struct{ file *os.File }

const turnSuffix = ".turn"

// What is sent, a byte each. A socket that nobody reads takes some ten and no more, which is
// enough: who has read one looks at the file.
const (
	turnCame  = 't' // claims of the process were granted or have ended
	turnFirst = 'f' // a claim of the process is the first that waits
)

// makeTurnSocket makes a process's socket; nil where the file system has none, and then
// its waiters poll.
func makeTurnSocket(dir, id string) *turnSocket {
	folder, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(folder)
	fd, err := newSocket()
	if err != nil {
		return nil
	}
	// The mode before the file: afterwards another file could have its name.
	if unix.Fchmod(fd, 0o600) != nil || unix.Bind(fd, addressOf(folder, id+turnSuffix)) != nil {
		unix.Close(fd)
		return nil
	}
	return &turnSocket{os.NewFile(uintptr(fd), filepath.Join(dir, id+turnSuffix))}
}

func newSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// addressOf returns the address of a file in an open folder, or of an open file. The path
// itself may be longer than the 107 bytes of an address.
func addressOf(fd int, name string) unix.Sockaddr {
	return &unix.SockaddrUnix{Name: filepath.Join(fmt.Sprint("/proc/self/fd/", fd), name)}
}

func (t *turnSocket) close() {
	if t != nil {
		os.Remove(t.file.Name())
		_ = t.file.Close() // nothing is lost
	}
}

// receive calls heard for each byte that others send, until ctx ends.
func (t *turnSocket) receive(ctx context.Context, heard func(byte)) {
	_ = t.file.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		var b [1]byte
		if _, err := t.file.Read(b[:]); err == nil {
			heard(b[0])
		} else if !errors.Is(err, io.EOF) { // which is somebody's empty datagram
			return
		}
	}
}

// sendTurn sends what, which may be nothing, to the process with an id, and returns the
// user of that. It never blocks: nobody has the socket of a dead process, and a stopped one
// has as much as it needs in it. It sends from another socket each time, since what stopped
// processes have not read counts against the one that it came from.
func sendTurn(dir, id string, what ...byte) (user uint32, err error) {
	file, err := unix.Open(filepath.Join(dir, id+turnSuffix), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(file)
	fd, err := newSocket()
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(file, &st); err == nil {
		err = unix.Connect(fd, addressOf(file, "")) // an error if it is no socket, or nobody's
	}
	if err == nil && len(what) > 0 {
		_, err = unix.Write(fd, what)
	}
	return st.Uid, err
}
