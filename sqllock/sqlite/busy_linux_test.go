package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// SQLite says after a while that the protocol of its locks is broken when another process,
// which may have been stopped, has those of the log's readers.
func TestAFileWhoseReadersAreLockedOutIsBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	e, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	shm, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer shm.Close()
	const firstReader, readers = 123, 5 // in the shared memory, by SQLite's file format
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: firstReader, Len: readers}
	if err := unix.FcntlFlock(shm.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), path)
	if err == nil {
		other.Close()
		t.Fatal("it opens a file that it cannot read")
	}
	if !errors.Is(err, sqlite3.BUSY) || !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("Open: %v", err)
	}
}
