package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// ErrSkipped says that a function run by RunOutsideTest skipped.
var ErrSkipped = errors.New("skipped")

// RunOutsideTest runs f like a test, for programs that are not tests, such as a
// benchmark, or for servers that several tests share: everything that f starts ends
// with f. A failure or a skip ends f and is returned as an error; log output goes
// to stderr if f fails. The text of a skip is the error's text, and errors.Is
// reports ErrSkipped.
func RunOutsideTest(f func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(context.Background())
	t := &fakeTest{ctx: ctx}
	done := make(chan struct{})
	go func() { // Fatal and Skip end this goroutine; received below
		defer close(done)
		defer t.runCleanups()
		defer cancel() // before the cleanups, as in a test
		f(t)
	}()
	<-done
	if t.err != nil {
		fmt.Fprint(os.Stderr, t.logged.String())
	}
	return t.err
}

// A fakeTest replaces a test where there is none. Methods that it does not define
// are not needed by servers and panic.
type fakeTest struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex // guards everything below
	cleanups []func()
	logged   strings.Builder
	err      error
}

func (o *fakeTest) Helper()                  {}
func (o *fakeTest) Name() string             { return "outside" }
func (o *fakeTest) Context() context.Context { return o.ctx }

func (o *fakeTest) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

func (o *fakeTest) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

func (o *fakeTest) Log(args ...any)                 { o.log(fmt.Sprint(args...), false) }
func (o *fakeTest) Logf(format string, args ...any) { o.log(fmt.Sprintf(format, args...), false) }

func (o *fakeTest) Error(args ...any)                 { o.log(fmt.Sprint(args...), true) }
func (o *fakeTest) Errorf(format string, args ...any) { o.log(fmt.Sprintf(format, args...), true) }

func (o *fakeTest) Fatal(args ...any)                 { o.end(fmt.Sprint(args...)) }
func (o *fakeTest) Fatalf(format string, args ...any) { o.end(fmt.Sprintf(format, args...)) }

func (o *fakeTest) Skip(args ...any)                 { o.fail(skip(fmt.Sprint(args...))); runtime.Goexit() }
func (o *fakeTest) Skipf(format string, args ...any) { o.Skip(fmt.Sprintf(format, args...)) }

// A skip is the reason of a skipped test.
type skip string

func (s skip) Error() string        { return string(s) }
func (s skip) Is(target error) bool { return target == ErrSkipped }

func (o *fakeTest) log(text string, failed bool) {
	if failed {
		o.fail(errors.New(text))
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(&o.logged, text)
}

func (o *fakeTest) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = errors.Join(o.err, err)
}

func (o *fakeTest) end(text string) {
	o.log(text, true)
	runtime.Goexit()
}

// runCleanups runs the cleanups, last first. They may add more.
func (o *fakeTest) runCleanups() {
	for {
		o.mu.Lock()
		n := len(o.cleanups)
		if n == 0 {
			o.mu.Unlock()
			return
		}
		f := o.cleanups[n-1]
		o.cleanups = o.cleanups[:n-1]
		o.mu.Unlock()
		f()
	}
}
