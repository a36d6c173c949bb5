package testserver

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAServerServesUntilStopped(t *testing.T) {
	t.Parallel()
	s := Start(t, fakeServer(t, "tiny"))
	expectAnswer(t, s, 1)
	if host, _, _ := net.SplitHostPort(s.Addr()); host != "127.0.0.1" {
		t.Errorf("serves on %s", host)
	}
	s.Stop()
	expectDown(t, s)
	s.Stop()
}

func TestTheServerAndItsFolderEndWithTheTest(t *testing.T) {
	t.Parallel()
	var s *Server
	r := record(t, func(t testing.TB) {
		s = Start(t, fakeServer(t, "tiny"))
		if _, err := os.Stat(s.Dir()); err != nil {
			t.Errorf("folder: %v", err)
		}
	})
	if r.failed {
		t.Error(r.logged.String())
	}
	expectDown(t, s)
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}

func TestAKilledServerRestartsInPlace(t *testing.T) {
	t.Parallel()
	s := Start(t, fakeServer(t, "tiny"))
	port, dir, pid := s.Port(), s.Dir(), s.PID()
	held := connect(t, s.Addr())
	if _, _, err := held.ask(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	expectDown(t, s)
	if _, _, err := held.ask(); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	expectAnswer(t, s, 2)
	if s.Port() != port || s.Dir() != dir {
		t.Errorf("restarted on %d in %s, was on %d in %s", s.Port(), s.Dir(), port, dir)
	}
	if s.PID() == pid {
		t.Error("the process is the same")
	}
}

func TestARunningServerIsStoppedByRestart(t *testing.T) {
	t.Parallel()
	s := Start(t, fakeServer(t, "tiny"))
	exited := s.Exited()
	s.Restart()
	<-exited
	expectAnswer(t, s, 2)
}

func TestAServerThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM to ignore")
	}
	spec := fakeServer(t, "deaf")
	spec.StopLimit = 50 * time.Millisecond
	s := Start(t, spec)
	s.Stop()
	expectDown(t, s)
	if state := s.current().state(); state != "signal: killed" {
		t.Errorf("ended by %s", state)
	}
}

func TestAPausedServerIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be paused")
	}
	s := Start(t, fakeServer(t, "tiny"))
	c := connect(t, s.Addr())
	if _, _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	// Does not wait for an event: it gives a server that is not paused time to
	// answer.
	c.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if _, _, err := c.ask(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a paused server: %v, want no answer", err)
	}
	c.SetDeadline(time.Now().Add(testTimeout))
	s.Resume()
	if _, _, err := c.ask(); err != nil {
		t.Fatalf("after resume: %v", err)
	}
}

func TestAPausedServerCanBeStopped(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be paused")
	}
	s := Start(t, fakeServer(t, "tiny"))
	s.Pause()
	s.Stop()
	expectDown(t, s)
	if state := s.current().state(); state != "signal: terminated" {
		t.Errorf("ended by %s", state)
	}
}

// Not parallel, because it changes the environment.
func TestAMissingServerSkipsTheTestButNotInCI(t *testing.T) {
	spec := Spec{
		Name:    "nothing",
		Package: "nothing-server",
		Binary:  File{"pawl-no-such-server", "/usr/lib/pawl-no-such-*/bin/server"},
	}
	start := func(t testing.TB) {
		Start(t, spec)
		t.Errorf("started")
	}
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		r := record(t, start)
		if want := ci != "true"; r.skipped != want || r.failed == want {
			t.Errorf("CI=%q: skipped %v, failed %v", ci, r.skipped, r.failed)
		}
		for _, want := range append(spec.Binary, spec.Package) {
			if !strings.Contains(r.logged.String(), want) {
				t.Errorf("CI=%q: %q does not name %s", ci, r.logged.String(), want)
			}
		}
	}
}

func TestWhatMustBeBesideCountsAsMissing(t *testing.T) {
	t.Setenv("CI", "")
	spec := fakeServer(t, "tiny")
	spec.Beside = []File{{"pawl-no-such-program"}}
	r := record(t, func(t testing.TB) { Start(t, spec) })
	if !r.skipped {
		t.Errorf("not skipped: %s", r.logged.String())
	}
}

func TestAFailedTestShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	r := record(t, func(t testing.TB) {
		Start(t, fakeServer(t, "tiny"))
		t.Errorf("a fault of the test")
	})
	if !strings.Contains(r.logged.String(), "serving, start 1") {
		t.Errorf("logged: %s", r.logged.String())
	}
}

func TestAServerThatCannotStartFailsTheTest(t *testing.T) {
	t.Parallel()
	r := record(t, func(t testing.TB) { Start(t, fakeServer(t, "broken")) })
	for _, want := range []string{"exit status 3", "out of order"} {
		if !r.failed || !strings.Contains(r.logged.String(), want) {
			t.Errorf("failed %v, logged %q, want %q", r.failed, r.logged.String(), want)
		}
	}
}

func TestAServerThatIsNeverReadyIsKilled(t *testing.T) {
	t.Parallel()
	spec := fakeServer(t, "tiny")
	spec.StartLimit = 200 * time.Millisecond
	var exited <-chan struct{}
	spec.Ready = func(_ context.Context, s *Server) error {
		exited = s.Exited()
		return errors.New("not yet")
	}
	r := record(t, func(t testing.TB) { Start(t, spec) })
	if !r.failed || !strings.Contains(r.logged.String(), "not yet") {
		t.Errorf("failed %v, logged %q", r.failed, r.logged.String())
	}
	select {
	case <-exited:
	default:
		t.Error("the process has not ended")
	}
}

func TestAPortTakenByAnotherIsGivenUp(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells whose port it is")
	}
	spec := fakeServer(t, "tiny")
	args := spec.Args
	var taken []string
	spec.Args = func(s *Server) []string {
		if len(taken) < 2 {
			// If another process was faster, that one may release it at any moment.
			if listener, err := net.Listen("tcp", s.Addr()); err == nil {
				t.Cleanup(func() { listener.Close() })
				taken = append(taken, s.Addr())
			}
		}
		return args(s)
	}
	s := Start(t, spec)
	if slices.Contains(taken, s.Addr()) {
		t.Errorf("serves on %s, which was taken", s.Addr())
	}
	expectAnswer(t, s, 1)
}

func TestPortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 200 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
	}
}
