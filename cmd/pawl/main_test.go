//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-go/pawl/driver"
)

// Only the test binary reads these.
const (
	stateEnv   = "PAWL_TEST_STATE"   // the folder of the local store
	contactEnv = "PAWL_TEST_CONTACT" // firstContact
)

// firstNameless begins the user ids that no machine gives to anybody.
const firstUnusedUID = 1_500_000_000

// patience is how long a test waits for what must happen; only a failure takes it.
const testTimeout = 30 * time.Second

// The test binary is pawl too, so that tests meet it as its users do: started by
// a shell, signalled, killed.
func TestMain(m *testing.M) {
	testscript.Main(testMain{m}, map[string]func(){"pawl": runPawl, "writer": runWriter, "listener": runListener})
}

// alert is a test run whose programs find no signal ignored: who runs the tests may
// have begun with nohup, or in the background of a script.
type testMain struct{ *testing.M }

// Run runs the tests, twice as many beside each other as there are processors: one in
// two waits for a lease to end, or for a line on a terminal.
func (a testMain) Run() int {
	flag.Parse()
	if !isFlagSet("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // caught here, it is itself again in what we start
		}
	}
	return a.M.Run()
}

// given reports whether a flag is on the command line.
func isFlagSet(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// playPawl is pawl without a way to the user's own store.
func runPawl() {
	own := stateFolder
	stateFolder = func() (string, error) {
		if os.Getuid() >= firstUnusedUID { // nobody's own store
			return own()
		}
		if dir := os.Getenv(stateEnv); dir != "" {
			return dir, nil
		}
		return "", errors.New("the test has named no folder for the local store")
	}
	if d, err := time.ParseDuration(os.Getenv(contactEnv)); err == nil {
		firstContact = d
	}
	driver.Register("sealed", openPasswordStore)
	time.AfterFunc(4*testTimeout, func() { os.Exit(98) }) // nothing outlives a test run that was killed
	main()
}

// openSealed opens sealed://user:password@/path?password=…&tls-key=…, an SQLite file
// that takes any password: a store to keep secrets of.
func openPasswordStore(ctx context.Context, u *url.URL) (driver.Engine, error) {
	open, ok := driver.Lookup("sqlite")
	if !ok {
		return nil, errors.New("sealed: there is no sqlite")
	}
	q := u.Query()
	q.Del("password")
	q.Del("tls-key")
	return open(ctx, &url.URL{Scheme: "sqlite", Path: u.Path, RawQuery: q.Encode()})
}

// playWriter keeps the write lock of a store's file until it is killed, so that
// nothing can be renewed there: writer FILE READY.
func runWriter() {
	db, err := sqlite3.Open("file:" + os.Args[1])
	for err == nil {
		if err = db.Exec("BEGIN IMMEDIATE"); !errors.Is(err, sqlite3.BUSY) {
			break
		}
		err = nil
		time.Sleep(time.Millisecond)
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte("writing\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(2 * testTimeout)
}

// playListener writes down each signal that comes, at once, where a shell would
// make one of two that come together: listener GOT GO. It ends with 9 when the
// file GO is there.
func runListener() {
	got, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ch := make(chan os.Signal, 100)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	fmt.Fprintln(got, "ready")
	for end := time.Now().Add(2 * testTimeout); time.Now().Before(end); {
		select {
		case sig := <-ch:
			fmt.Fprintln(got, sig)
		case <-time.After(5 * time.Millisecond):
			if _, err := os.Stat(os.Args[2]); err == nil {
				os.Exit(9)
			}
		}
	}
}

// variables are what every pawl of a test finds in its environment.
func variables(dir string) []string {
	return []string{
		"PAWL_STORE=sqlite://" + filepath.Join(dir, "locks.db"),
		stateEnv + "=" + filepath.Join(dir, "state"),
		"GORACE=atexit_sleep_ms=0", // otherwise every pawl ends a second late
		"SHELL=/bin/sh",
		"TERM=xterm",
	}
}

// eventually looks until something is true, or patience has ended.
func eventually(is func() bool) bool {
	for end := time.Now().Add(testTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// endIn ends the processes that a failed test has left in its folder: a script
// waits for those in the background, and they for what will not come.
func endIn(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && (at == dir || strings.HasPrefix(at, dir+"/")) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// running reports whether a process is there and not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return !strings.HasPrefix(after, " Z") && !strings.HasPrefix(after, " X")
}
