package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const bootFile = "/proc/sys/kernel/random/boot_id"

func init() {
	// mounted puts one file over another, for itself alone, and then plays a role:
	// mounted FROM TO ROLE ARGS...
	roles["mounted"] = func(args []string) error {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := syscall.Mount(args[0], args[1], "", syscall.MS_BIND, ""); err != nil {
			return err
		}
		return roles[args[2]](args[3:])
	}
	// try takes a name if it is free, says how that went and waits to be killed.
	roles["try"] = func(args []string) error {
		fmt.Println(roleTry(args[0], args[1]))
		return idle()
	}
	// list says what is listed: list FILE. look does so without the right to change anything.
	roles["list"] = func(args []string) error { return roleList(args[0]) }
	roles["look"] = func(args []string) error { return roleList(args[0], WithReadOnly()) }
}

func roleList(path string, opts ...Option) error {
	e, err := Open(context.Background(), path, opts...)
	if err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	defer e.Close()
	var names []string
	for x, err := range e.List(context.Background(), "") {
		if err != nil {
			return err
		}
		names = append(names, x.Name)
	}
	fmt.Println("listed:", names)
	return nil
}

// roleTry takes a name if it is free, with a life longer than any test.
func roleTry(path, name string) string {
	e, err := Open(context.Background(), path)
	if err != nil {
		return "refused: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	s, err := e.Open(context.Background(), driver.SessionOptions{ID: "try", TTL: time.Hour})
	if err != nil {
		return "refused: " + err.Error()
	}
	st, err := s.Enter(context.Background(), driver.Claim{ID: fmt.Sprint("pid", os.Getpid()), Try: 1, Name: name, Need: 1, Limit: 1})
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case st.Held:
		return "held"
	}
	return "busy"
}

// apart is a process in a mount namespace of its own.
func apart(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	as := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // root of a user namespace may mount as well
		as.Cloneflags |= syscall.CLONE_NEWUSER
		as.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		as.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return as
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A container gets the file alone, and not its folder: log, shared memory and
// liveness files would then be its own, and its locks too.
func TestAFileThatIsMountedAloneIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	if st := enter(t, session(t, openFile(t, path), time.Hour), mutex("a")); !st.Held {
		t.Fatal("not held")
	}
	inside := writeFile(t, filepath.Join(t.TempDir(), "inside.db"), "")
	_, said := startAs(t, apart(t), "mounted", path, inside, "try", inside, "job")
	if !strings.HasPrefix(said, "refused:") || !strings.Contains(said, "mount the folder") {
		t.Errorf("a file that is mounted alone: %s", said)
	}
	if _, err := os.Stat(inside + "-wal"); err == nil {
		t.Error("it has a log of its own")
	}
	// The folder is what may be mounted.
	folder := t.TempDir()
	_, said = startAs(t, apart(t), "mounted", filepath.Dir(path), folder, "try", filepath.Join(folder, "pawl.db"), "job")
	if said != "busy" {
		t.Errorf("a folder that is mounted: %s", said)
	}
}

// A link whose end is not there yet is followed when the file is made, and the
// folder of liveness files must lie where the next one looks for it.
func TestALinkToAFileThatIsNotThereYetLeadsToOneStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(t.TempDir(), "pawl.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	holder, _ := start(t, "hold", link, "job")
	c := mutex("trier")
	c.Queue = false
	s := session(t, openFile(t, path), time.Minute)
	if st := enter(t, s, c); st.Held {
		t.Error("held by both names")
	}
	kill(t, holder)
	if st := enter(t, s, c); !st.Held {
		t.Errorf("not noticed that the holder was killed: %+v", st)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("beside the link: %v", files)
	}
}

// systemd-nspawn gives a container another boot id, on the same kernel.
func TestAnotherBootIDFreesNoLiveHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	id := writeFile(t, filepath.Join(dir, "id"), "5c0ffee5-0000-4000-8000-000000000001\n")
	e := openFile(t, path)
	s := session(t, e, time.Hour)
	if st := enter(t, s, mutex("a")); !st.Held {
		t.Fatal("not held")
	}
	for _, role := range []string{"look", "list"} {
		if _, said := startAs(t, apart(t), "mounted", id, bootFile, role, path); said != "listed: [job]" {
			t.Errorf("%s with another boot id: %s", role, said)
		}
	}
	if _, said := startAs(t, apart(t), "mounted", id, bootFile, "try", path, "job"); said != "busy" {
		t.Errorf("with another boot id: %s", said)
	}
	// And the other way round: what the other holds is not freed by us.
	other, said := startAs(t, apart(t), "mounted", id, bootFile, "try", path, "theirs")
	if said != "held" {
		t.Fatalf("a free name with another boot id: %s", said)
	}
	for range 2 { // the second is of the boot that the first has written down
		if _, said := start(t, "try", path, "theirs"); said != "busy" {
			t.Errorf("held by one with another boot id: %s", said)
		}
	}
	kill(t, other)
	if _, said := start(t, "try", path, "theirs"); said != "held" {
		t.Errorf("after the other was killed: %s", said)
	}
	if st := enter(t, s, mutex("a")); !st.Held {
		t.Errorf("the first holder: %+v", st)
	}
}

// Of two boot ids on one kernel the one that is in the file may be that of a
// process which has gone, while a holder of the other id lives.
func TestAHolderOutlivesTheBootIDInTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	id := writeFile(t, filepath.Join(dir, "id"), "5c0ffee5-0000-4000-8000-000000000002\n")
	start(t, "hold", path, "job")
	other, said := startAs(t, apart(t), "mounted", id, bootFile, "try", path, "theirs")
	if said != "held" {
		t.Fatalf("a free name with another boot id: %s", said)
	}
	kill(t, other)
	if _, said := start(t, "try", path, "job"); said != "busy" {
		t.Errorf("held by one of the first boot id: %s", said)
	}
}
