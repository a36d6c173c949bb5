package testserver

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testTimeout bounds every wait of a test.
const testTimeout = 20 * time.Second

// roleVar makes a child process of the test binary the server of a test.
const roleVar = "PAWL_TESTSERVER_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		flag.Parse()
		if err := flag.Set("test.parallel", "8"); err != nil { // most tests wait for servers to start or to elect a leader
			panic(err)
		}
		os.Exit(m.Run())
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		serveFake()
	case "tiny":
		serveFake()
	case "reserve":
		port, _ := strconv.Atoi(os.Args[1])
		fmt.Println(reservePort(port))
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test closes it
	case "broken":
		fmt.Println("out of order")
		os.Exit(3)
	}
}

// serveFake answers every line with its process id and how often it was started in
// this folder. Its address is the argument.
func serveFake() {
	const counter = "starts"
	data, _ := os.ReadFile(counter)
	starts, _ := strconv.Atoi(string(data))
	starts++
	if err := os.WriteFile(counter, []byte(strconv.Itoa(starts)), 0o600); err != nil {
		fail(err)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fail(err)
	}
	fmt.Println("serving, start", starts)
	for {
		conn, err := listener.Accept()
		if err != nil {
			fail(err)
		}
		go func() { // ends with the process
			defer conn.Close()
			r := bufio.NewReader(conn)
			for {
				if _, err := r.ReadString('\n'); err != nil {
					return
				}
				fmt.Fprintf(conn, "%d %d\n", os.Getpid(), starts)
			}
		}()
	}
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func fakeServer(t testing.TB, what string) Spec {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{
		Name:       "tiny",
		Package:    "none",
		Binary:     File{filepath.ToSlash(program)},
		Args:       func(s *Server) []string { return []string{s.Addr()} },
		Env:        []string{roleVar + "=" + what},
		StartLimit: testTimeout,
		StopLimit:  testTimeout,
	}
}

// A connection is a connection to the fake server.
type connection struct {
	net.Conn
	r *bufio.Reader
}

func connect(t *testing.T, addr string) *connection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &connection{conn, bufio.NewReader(conn)}
}

// ask returns the server's process id and how often it was started.
func (l *connection) ask() (pid, starts int, err error) {
	if _, err := fmt.Fprintln(l); err != nil {
		return 0, 0, err
	}
	answer, err := l.r.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(answer, &pid, &starts)
	return pid, starts, err
}

func expectAnswer(t *testing.T, s *Server, starts int) {
	t.Helper()
	pid, n, err := connect(t, s.Addr()).ask()
	if err != nil {
		t.Fatal(err)
	}
	if pid != s.PID() || n != starts {
		t.Errorf("answer of process %d, start %d; want %d, start %d", pid, n, s.PID(), starts)
	}
}

func expectDown(t *testing.T, s *Server) {
	t.Helper()
	select {
	case <-s.Exited():
	default:
		t.Error("the process has not ended")
	}
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("something still listens")
	}
}

// A recorder replaces a test, to examine how it ends.
type recorder struct {
	testing.TB

	mu       sync.Mutex // guards everything below
	logged   strings.Builder
	skipped  bool
	failed   bool
	cleanups []func()
}

// record runs f as a separate test, including cleanups, and returns its outcome.
func record(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatal and Skip end this goroutine; received below
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.logged, format+"\n", args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }

func (r *recorder) Skip(args ...any) {
	r.Logf("%s", fmt.Sprint(args...))
	r.skipped = true
	runtime.Goexit()
}
