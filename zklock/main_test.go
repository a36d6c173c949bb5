package zklock

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// TestMain lets more tests run beside each other than there are processors: most
// of them wait for a session to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	sharedTB.end()
	os.Exit(code)
}

// sharedTB is where the servers live that all tests of the package share: one node,
// and an ensemble of three for tests that break nothing.
var sharedTB = &serverTB{}

var (
	oneNode = sync.OnceValue(func() *testserver.Server {
		return testserver.ZooKeeper(sharedTB, "maxSessionTimeout=200000")
	})
	threeNodes = sync.OnceValue(func() *testserver.Ensemble {
		return testserver.ZooKeepers(sharedTB, 3, nil, "maxSessionTimeout=200000", "syncLimit=50")
	})
)

// oneServer returns the address of the node that all tests share.
func oneServer(t testing.TB) string {
	t.Helper()
	return startShared(t, oneNode).Addr()
}

// threeServers returns the addresses of the ensemble that all tests share.
func threeServers(t testing.TB) []string {
	t.Helper()
	return startShared(t, threeNodes).Addrs()
}

// startShared starts a shared server on first use. What keeps it from starting is told
// to every test that asks for it.
func startShared[S any](t testing.TB, start func() S) S {
	t.Helper()
	sharedTB.mu.Lock()
	defer sharedTB.mu.Unlock()
	var s S
	done := make(chan struct{})
	go func() { // a test that fails or skips ends its goroutine
		defer close(done)
		s = start()
	}()
	<-done
	switch {
	case sharedTB.skipped != "":
		t.Skip(sharedTB.skipped)
	case sharedTB.failed != "":
		t.Fatal(sharedTB.failed)
	}
	return s
}

// A serverTB is what a server takes for its test, and outlives the tests.
type serverTB struct {
	testing.TB
	mu       sync.Mutex // one starts at a time
	cleanups []func()
	skipped  string
	failed   string
}

func (l *serverTB) Helper()                         {}
func (l *serverTB) Name() string                    { return "zklock" }
func (l *serverTB) Failed() bool                    { return l.failed != "" }
func (l *serverTB) Cleanup(f func())                { l.cleanups = append(l.cleanups, f) }
func (l *serverTB) Log(args ...any)                 { fmt.Println(args...) }
func (l *serverTB) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (l *serverTB) Errorf(format string, args ...any) {
	l.failed += fmt.Sprintf(format, args...)
}
func (l *serverTB) Fatal(args ...any) { l.Fatalf("%s", fmt.Sprint(args...)) }
func (l *serverTB) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}
func (l *serverTB) Skip(args ...any) {
	l.skipped = strings.TrimSpace(fmt.Sprintln(args...))
	runtime.Goexit()
}

func (l *serverTB) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}
