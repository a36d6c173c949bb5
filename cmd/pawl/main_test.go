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

// Read by the test binary only.
const (
	stateEnv   = "PAWL_TEST_STATE"   // the folder of the local store
	contactEnv = "PAWL_TEST_CONTACT" // firstContact
)

// firstUnusedUID is the first user id of a range that no machine assigns.
const firstUnusedUID = 1_500_000_000

// testTimeout bounds every wait of a test; only failures take that long.
const testTimeout = 30 * time.Second

// The test binary also serves as pawl, so that tests run it as users do: started by
// a shell, signalled, killed.
func TestMain(m *testing.M) {
	testscript.Main(testMain{m}, programs)
}

// programs are what the test binary serves as, by name.
var programs = map[string]func(){"pawl": runPawl, "writer": runWriter, "listener": runListener}

// testMain makes sure that programs under test start without ignored signals: the
// tests may run under nohup or in the background of a script.
type testMain struct{ *testing.M }

// Run runs twice as many parallel tests as there are processors, because about half
// of them wait for a lease to end or for terminal output.
func (a testMain) Run() int {
	flag.Parse()
	if !isFlagSet("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // a caught signal is reset to its default in child processes
		}
	}
	return a.M.Run()
}

// isFlagSet reports whether a flag is on the command line.
func isFlagSet(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// runPawl runs pawl without access to the user's own store.
func runPawl() {
	own := stateFolder
	stateFolder = func() (string, error) {
		if os.Getuid() >= firstUnusedUID { // a user without a store of its own
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
	time.AfterFunc(4*testTimeout, func() { // a killed test run leaves nothing behind
		fmt.Fprintf(os.Stderr, "this pawl under test is %v old, and ends\n", 4*testTimeout)
		os.Exit(98)
	})
	main()
}

// openPasswordStore opens sealed://user:password@/path?password=…&tls-key=…, an
// SQLite file that accepts any password.
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

// runWriter holds the write lock of a store's file until it is killed, so that
// nothing can be renewed: writer FILE READY.
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

// runListener logs every signal immediately, whereas a shell merges two that arrive
// together: listener GOT GO. It exits with 9 when the file GO exists.
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

// variables returns the environment of every pawl under test.
func variables(dir string) []string {
	return []string{
		"PAWL_STORE=sqlite://" + filepath.Join(dir, "locks.db"),
		stateEnv + "=" + filepath.Join(dir, "state"),
		"GORACE=atexit_sleep_ms=0", // otherwise every pawl exits a second late
		"SHELL=/bin/sh",
		"TERM=xterm",
	}
}

// eventually polls until is returns true, for at most testTimeout.
func eventually(is func() bool) bool {
	for end := time.Now().Add(testTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// endIn kills the processes that a failed test left in its folder: a script waits
// for its background processes, and those for something that will never happen.
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

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return !strings.HasPrefix(after, " Z") && !strings.HasPrefix(after, " X")
}
