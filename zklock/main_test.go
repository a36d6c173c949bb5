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
	house.end()
	os.Exit(code)
}

// house is where the servers live that all tests of the package share: one node,
// and an ensemble of three for those who break nothing.
var house = &lodge{}

var (
	oneNode = sync.OnceValue(func() *testserver.Server {
		return testserver.ZooKeeper(house, "maxSessionTimeout=200000")
	})
	threeNodes = sync.OnceValue(func() *testserver.Ensemble {
		return testserver.ZooKeepers(house, 3, nil, "maxSessionTimeout=200000", "syncLimit=50")
	})
)

// one returns the address of the node that all tests share.
func one(t testing.TB) string {
	t.Helper()
	return lodged(t, oneNode).Addr()
}

// three returns the addresses of the ensemble that all tests share.
func three(t testing.TB) []string {
	t.Helper()
	return lodged(t, threeNodes).Addrs()
}

// lodged starts a shared server on first use. What keeps it from starting is told
// to every test that asks for it.
func lodged[S any](t testing.TB, start func() S) S {
	t.Helper()
	house.mu.Lock()
	defer house.mu.Unlock()
	var s S
	done := make(chan struct{})
	go func() { // a test that fails or skips ends its goroutine
		defer close(done)
		s = start()
	}()
	<-done
	switch {
	case house.skipped != "":
		t.Skip(house.skipped)
	case house.failed != "":
		t.Fatal(house.failed)
	}
	return s
}

// A lodge is what a server takes for its test, and outlives the tests.
type lodge struct {
	testing.TB
	mu       sync.Mutex // one starts at a time
	cleanups []func()
	skipped  string
	failed   string
}

func (l *lodge) Helper()                         {}
func (l *lodge) Name() string                    { return "zklock" }
func (l *lodge) Failed() bool                    { return l.failed != "" }
func (l *lodge) Cleanup(f func())                { l.cleanups = append(l.cleanups, f) }
func (l *lodge) Log(args ...any)                 { fmt.Println(args...) }
func (l *lodge) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (l *lodge) Errorf(format string, args ...any) {
	l.failed += fmt.Sprintf(format, args...)
}
func (l *lodge) Fatal(args ...any) { l.Fatalf("%s", fmt.Sprint(args...)) }
func (l *lodge) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}
func (l *lodge) Skip(args ...any) {
	l.skipped = strings.TrimSpace(fmt.Sprintln(args...))
	runtime.Goexit()
}

func (l *lodge) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}
