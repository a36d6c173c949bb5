package sqlitedoctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
)

// stepsKey is the environment variable by which a child process learns what to do.
const stepsKey = "PAWL_DOCTOR_STEPS"

func TestMain(m *testing.M) {
	steps := os.Getenv(stepsKey)
	if steps == "" {
		var notApplied map[string]string
		if onDisk() == "" {
			notApplied = map[string]string{here: "no folder of this machine is on a local disk"}
		}
		os.Exit(doctortest.Unapplied(m.Run(), notApplied))
	}
	for step := range strings.SplitSeq(steps, "\n") {
		if err := do(strings.Split(step, "\t")); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
			os.Exit(1)
		}
	}
}

// do does one step of a child process.
func do(step []string) error {
	switch step[0] {
	case "mount": // KIND FOLDER DATA
		return syscall.Mount(step[1], step[2], step[1], 0, step[3])
	case "bind": // FROM TO
		return syscall.Mount(step[1], step[2], "", syscall.MS_BIND, "")
	case "readonly": // FOLDER
		return syscall.Mount("", step[1], "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
	case "fuse": // FOLDER
		return mountFUSE(step[1])
	case "shell": // LINE
		out, err := exec.Command("sh", "-ec", step[1]).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	case "user": // UID
		uid, err := strconv.Atoi(step[1])
		if err != nil {
			return err
		}
		groups, err := groupsOf(step[1])
		return errors.Join(err, syscall.Setgroups(groups), syscall.Setgid(uid), syscall.Setuid(uid))
	case "examine": // STORE
		found, err := doctor.Examine(context.Background(), step[1])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(found)
	}
	return errors.New("unknown step")
}

// groupsOf returns the groups that a user gets by a login.
func groupsOf(uid string) (groups []int, err error) {
	u, err := user.LookupId(uid)
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		groups = append(groups, gid)
	}
	return groups, err
}

// apart runs steps in a process with mounts of its own, and returns what its examination
// found.
func apart(t *testing.T, steps ...string) []doctor.Finding {
	t.Helper()
	as := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // root of a user namespace may mount as well
		as.Cloneflags |= syscall.CLONE_NEWUSER
		as.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		as.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return child(t, as, append([]string{"shell\tmount --make-rprivate /"}, steps...))
}

func child(t *testing.T, as *syscall.SysProcAttr, steps []string) []doctor.Finding {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.SysProcAttr = as
	cmd.Env = append(os.Environ(), stepsKey+"="+strings.Join(steps, "\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if strings.Contains(err.Error(), "operation not permitted") {
			t.Skipf("this user may not mount: %v", err)
		}
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return decode(t, out)
}

// onDisk returns a folder on a local disk, "" if this machine has none.
var onDisk = sync.OnceValue(func() string {
	for _, dir := range []string{os.TempDir(), "/var/tmp"} {
		if f, err := fileSystem(context.Background(), &file{folder: dir}); err == nil && f.Level == doctor.OK {
			return dir
		}
	}
	return ""
})

func TestAFileOnTmpfsOrOverlayfsIsAWarning(t *testing.T) {
	t.Parallel()
	better := ""
	if onDisk() != "" {
		inMemory := "sqlite://" + newPathIn(t, "/dev/shm")
		better = newPathIn(t, onDisk())
		before := doctortest.Examine(t, inMemory)
		mend := expect(t, before, here, doctor.Warning, "is on tmpfs", "A restart of the machine removes the file")
		doctortest.Mended(t, before, doctortest.Examine(t, named(t, mend, "/var/lib/pawl/locks.db", better)), here, "")
	}
	path := newPath(t)
	dir := filepath.Dir(path)
	found := apart(t, "mount\ttmpfs\t"+dir+"\tsize=64m", "examine\tsqlite://"+path)
	expect(t, found, here, doctor.Warning, "is on tmpfs", "A restart of the machine removes the file")
	overlay := []string{"mount\ttmpfs\t" + dir + "\tsize=64m", "shell\tcd " + dir + " && mkdir image changes work all",
		fmt.Sprintf("mount\toverlay\t%s/all\tlowerdir=%[1]s/image,upperdir=%[1]s/changes,workdir=%[1]s/work", dir)}
	examine := "examine\tsqlite://" + dir + "/all/locks.db"
	before := apart(t, append(overlay, examine)...)
	if mend := expect(t, before, here, doctor.Warning, "is on overlayfs", "locks of its own"); mend != "docker run -v pawl:"+dir+"/all" {
		t.Error(mend)
	}
	if better != "" { // a volume is a folder of the machine's, mounted as this is
		doctortest.Mended(t, before, apart(t, append(overlay, "bind\t"+filepath.Dir(better)+"\t"+dir+"/all", examine)...), here, "")
	}
}

// FUSE stands for the file systems that programs and other machines implement.
func TestANetworkFileSystemIsBroken(t *testing.T) {
	t.Parallel()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("optional server: FUSE is not there for this user: %v", err)
	} else {
		f.Close()
	}
	path := newPath(t)
	for _, params := range []string{"", "?network=allow"} {
		found := apart(t, "fuse\t"+filepath.Dir(path), "examine\tsqlite://"+path+params)
		expect(t, found, here, doctor.Broken, filepath.Dir(path)+" is on FUSE", "two may hold the same lock")
	}
}

func TestADiskThatIsFullIsFound(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	dir := filepath.Dir(path)
	fill := func(data string, lines ...string) []doctor.Finding {
		steps := []string{"mount\ttmpfs\t" + dir + "\t" + data}
		for _, line := range lines {
			steps = append(steps, "shell\tcd "+dir+" && "+line)
		}
		return apart(t, append(steps, "examine\tsqlite://"+path)...)
	}
	expect(t, fill("size=64m,nr_inodes=1000", "true"), "space", doctor.OK, "64.0 MB are left", "")
	expect(t, fill("size=16m,nr_inodes=1000", "true"), "space", doctor.Warning, "16.0 MB are left", "when the disk is full")
	for _, test := range []struct{ data, line, found, shows string }{
		{"size=64m,nr_inodes=1000", "mkdir sub && head -c 66500000 /dev/zero > sub/other", "0.6 MB are left", "sub/other"},
		{"size=64m,nr_inodes=200", "mkdir sub && cd sub && touch $(seq 196)", "2 inodes", "sub"},
	} {
		before := fill(test.data, test.line)
		mend := expect(t, before, "space", doctor.Broken, test.found, "when the disk is full")
		after := fill(test.data, test.line, mend+" | grep "+dir+"/"+test.shows+"$", "rm -r sub") // what the mend shows goes
		doctortest.Mended(t, before, after, "space", "", here)
	}
	expect(t, fill("size=64m,nr_inodes=50", "true"), "space", doctor.Warning, "49 inodes", "when the disk is full")
	expect(t, fill("size=64m,nr_inodes=5", "touch a b c"), "space", doctor.Broken, "1 inodes", "when the disk is full")
}

func TestAFileThatIsMountedWithoutItsFolderIsBroken(t *testing.T) {
	t.Parallel()
	from, path := newStore(t), newPath(t)
	to := filepath.Join(filepath.Dir(path), "inside.db")
	found := apart(t, "shell\ttouch "+to, "bind\t"+from+"\t"+to, "examine\tsqlite://"+to)
	if mend := expect(t, found, "path", doctor.Broken, "is mounted without its folder", "locks of its own"); !strings.HasPrefix(mend, "docker run -v ") {
		t.Error(mend)
	}
	folder := filepath.Dir(path)
	found = apart(t, "bind\t"+filepath.Dir(from)+"\t"+folder, "examine\tsqlite://"+path)
	expect(t, found, "path", doctor.OK, path, "")
}

func TestAFileSystemThatIsReadOnlyIsBroken(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	dir := filepath.Dir(path)
	found := apart(t, "bind\t"+dir+"\t"+dir, "readonly\t"+dir, "examine\tsqlite://"+path)
	if mend := expect(t, found, "rights", doctor.Broken, "mounted read-only", "No lock can be taken"); !strings.HasPrefix(mend, "mount -o remount,rw ") {
		t.Error(mend)
	}
}

// nobody is a user that owns none of the files.
const nobody = 65534

// asNobody examines a file as another user.
func asNobody(t *testing.T, path string) []doctor.Finding {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	return child(t, &syscall.SysProcAttr{}, []string{fmt.Sprint("user\t", nobody), "examine\tsqlite://" + path})
}

func TestFilesThatTheUserMayNotWriteToAreNamed(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	dir := filepath.Dir(path)
	mend := expect(t, asNobody(t, path), "rights", doctor.Broken, fmt.Sprintf("nobody may not write to %s (root, mode 0755), nobody may not write to %s (root, mode 0644)", dir, path), "by this user")
	const group = "groupadd -f pawl; usermod -aG pawl nobody; chgrp pawl "
	if want := fmt.Sprintf("%[1]s%[2]s; chmod g+rwxs %[2]s; %[1]s%[3]s; chmod g+rw %[3]s;", group, dir, path); !strings.HasPrefix(mend, want) { // the log may be there too
		t.Errorf("%s, want %s", mend, want)
	}
	users := newPath(t) // groups are made in a copy of /etc
	etc := fmt.Sprintf("mount\toverlay\t/etc\tlowerdir=/etc,upperdir=%[1]s/up,workdir=%[1]s/work", filepath.Dir(users))
	found := apart(t, "mount\ttmpfs\t"+filepath.Dir(users)+"\tsize=64m", "shell\tcd "+filepath.Dir(users)+" && mkdir up work", etc,
		"shell\t"+mend, fmt.Sprint("user\t", nobody), "examine\tsqlite://"+path)
	expect(t, found, "rights", doctor.OK, "", "")
	doctortest.Applied("rights")
	for _, one := range []string{dir, path} {
		if info, err := os.Stat(one); err != nil || info.Mode().Perm()&0o002 != 0 {
			t.Errorf("everybody may write to %s: %v, %v", one, info.Mode(), err)
		}
	}
	run(t, fmt.Sprintf("chmod 777 %[1]s && chmod +t %[1]s && chmod 666 %[2]s", dir, path))
	for _, beside := range []string{path + "-wal", path + "-shm"} { // as root leaves them behind
		if err := os.WriteFile(beside, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(path+".live", 0o755), os.Chown(path, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	mend = expect(t, asNobody(t, path), "rights", doctor.Broken, path+".live (root, mode 0755)", "by this user")
	run(t, mend)
	expect(t, asNobody(t, path), "rights", doctor.Warning, path+".live (nobody, mode 0755)", "they cannot lock") // others may write to the file
}

func TestModesThatContradictEachOtherAreAWarning(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	dir := filepath.Dir(path)
	for _, test := range []struct {
		file, folder   os.FileMode
		found, meaning string
	}{
		{0o660, 0o755, "mode 0755", "may write to the file and not make the files beside it"},
		{0o666, os.ModeSticky | 0o775, "mode 1775", "may write to the file and not make the files beside it"},
		{0o644, 0o777, "mode 0777", "put another file in the place of this one"},
	} {
		if err := errors.Join(os.Chmod(path, test.file), os.Chmod(dir, test.folder)); err != nil {
			t.Fatal(err)
		}
		found, err := doctor.Examine(t.Context(), "sqlite://"+path)
		if err != nil {
			t.Fatal(err)
		}
		run(t, expect(t, found, "rights", doctor.Warning, test.found, test.meaning))
		doctortest.Applied("rights")
		if found, err = doctor.Examine(t.Context(), "sqlite://"+path); err != nil {
			t.Fatal(err)
		}
		expect(t, found, "rights", doctor.OK, "", "")
	}
}
