package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

func init() {
	// crowd locks and unlocks one name, and says how often it has held it for each line
	// that it reads. It ends with its input.
	roles["crowd"] = func(args []string) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		e, err := Open(ctx, args[0])
		if err != nil {
			return err
		}
		s, err := e.Open(ctx, driver.SessionOptions{ID: fmt.Sprint("crowd", os.Getpid()), TTL: time.Minute})
		if err != nil {
			return err
		}
		var held atomic.Int64
		ended := make(chan error, 1)
		go func() { // received below
			for i := 0; ; i++ {
				if err := holdOnce(ctx, s, fmt.Sprint(os.Getpid(), "-", i)); err != nil {
					ended <- err
					return
				}
				held.Add(1)
			}
		}()
		fmt.Println("ready")
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(held.Load())
		}
		cancel()
		err = <-ended
		if ctx.Err() == nil || !strings.Contains(err.Error(), "context canceled") {
			return err
		}
		return e.Close()
	}
}

// holdOnce takes "job", waiting for it if need be, and gives it back.
func holdOnce(ctx context.Context, s driver.Session, id string) error {
	c := mutex(id)
	st, err := s.Enter(ctx, c)
	for err == nil && !st.Held {
		st, err = s.Await(ctx, c, st)
	}
	if err != nil {
		return err
	}
	return s.Leave(ctx, c)
}

// Rivals are processes that all want one name.
type rivals []struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startRivals(t *testing.T, n int) (all rivals) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"=crowd "+path), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			cmd.Process.Kill()
			cmd.Wait()
		})
		all = append(all, struct {
			in  io.WriteCloser
			out *bufio.Reader
		}{in, bufio.NewReader(out)})
	}
	for _, p := range all {
		if said, err := p.out.ReadString('\n'); said != "ready\n" {
			t.Fatalf("%q, %v", said, err)
		}
	}
	return all
}

// held returns how often the processes have held the name so far.
func (all rivals) held(t *testing.T) (sum int) {
	t.Helper()
	for _, p := range all {
		fmt.Fprintln(p.in)
	}
	for _, p := range all {
		n := 0
		if _, err := fmt.Fscanln(p.out, &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// rate returns how many holds a second the processes have, once each has had one, and
// ends them.
func (all rivals) rate(t *testing.T) float64 {
	t.Helper()
	defer func() {
		for _, p := range all {
			p.in.Close()
		}
		for _, p := range all {
			io.Copy(io.Discard, p.out)
		}
	}()
	for all.held(t) < len(all) { // a line: each has held once before one holds twice
		time.Sleep(20 * time.Millisecond)
	}
	from, before := time.Now(), all.held(t)
	time.Sleep(2 * time.Second)
	return float64(all.held(t)-before) / time.Since(from).Seconds()
}

// traced counts the statements that run on the connection with which an engine reads.
func traced(t *testing.T, e *Engine) *atomic.Int64 {
	t.Helper()
	c, err := e.store.acquireReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	n := new(atomic.Int64)
	if err := c.db.Trace(sqlite3.TRACE_STMT, func(sqlite3.TraceEvent, any, any) error { n.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// holderAndWaiter opens a file twice, and has one session hold the claim "a" and another
// wait behind it as "b", which has its turn when turn says so.
func holderAndWaiter(t *testing.T, path string) (eh, ew *Engine, holder driver.Session, turn <-chan error) {
	eh, ew = openFile(t, path), openFile(t, path)
	holder, waiter := session(t, eh, time.Hour), session(t, ew, time.Hour)
	enter(t, holder, mutex("a"))
	enter(t, waiter, mutex("b"))
	return eh, ew, holder, awaitInBackground(t, waiter, mutex("b"))
}

// awaitInBackground waits for a claim's turn, which got then has.
func awaitInBackground(t *testing.T, s driver.Session, c driver.Claim) (got chan error) {
	got = make(chan error, 1)
	go func() { // ends with the test
		st, err := s.Await(t.Context(), c, driver.Standing{})
		for err == nil && !st.Held && !st.Gone {
			st, err = s.Await(t.Context(), c, st)
		}
		if err == nil && st.Gone {
			err = driver.ErrGone
		}
		got <- err
	}()
	return got
}

// Each engine is as good as a process: it has a liveness file and a socket of its own. If
// all that wait looked at each change, a handoff cost two reads for each of them.
func TestAHandoffIsReadByTheOneWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	const waiting, handoffs = 60, 20
	path := filepath.Join(t.TempDir(), "pawl.db")
	holder := session(t, openFile(t, path), time.Hour)
	enter(t, holder, mutex("0"))
	sessions, reads := []driver.Session{holder}, []*atomic.Int64{nil}
	turn := []chan error{nil}
	for i := 1; i <= waiting; i++ {
		e := openFile(t, path)
		s, c := session(t, e, time.Hour), mutex(fmt.Sprint(i))
		if st := enter(t, s, c); st.Held {
			t.Fatal("held beside another")
		}
		reads, sessions = append(reads, traced(t, e)), append(sessions, s)
		turn = append(turn, awaitInBackground(t, s, c))
	}
	time.Sleep(2 * tellersSought) // by then each has found that all others tell
	sum := func() (n int64) {
		for _, r := range reads[handoffs+2:] { // of those who have no turn, and are not told that they are next
			n += r.Load()
		}
		return n
	}
	from, before := time.Now(), sum()
	for i := range handoffs {
		if err := sessions[i].Leave(t.Context(), mutex(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := <-turn[i+1]; err != nil {
			t.Fatal(err)
		}
	}
	n, took := sum()-before, time.Since(from)
	bystanders := int64(waiting - handoffs - 1)
	t.Logf("%d handoffs in %v: the %d others made %d reads", handoffs, took, bystanders, n)
	// Each looks every now and then, at least half a second apart, in case it was not told.
	if most := bystanders * (handoffs/4 + int64(took/(otherLooks/2)+1)*6); n > most {
		t.Errorf("%d reads by those whose turn it was not, at most %d", n, most)
	}
}

func TestAWaiterIsServedWithoutBeingTold(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, holder, waiter *Engine){
		"its socket was removed": func(t *testing.T, _, waiter *Engine) {
			if err := os.Remove(waiter.liveness.turns.file.Name()); err != nil {
				t.Fatal(err)
			}
		},
		"its socket was replaced by a file": func(t *testing.T, _, waiter *Engine) {
			name := waiter.liveness.turns.file.Name()
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			writeFile(t, name, "kept")
			t.Cleanup(func() {
				if b, _ := os.ReadFile(name); len(b) > 0 && string(b) != "kept" {
					t.Errorf("the file was changed: %q", b)
				}
			})
		},
		"the folder was removed": func(t *testing.T, _, waiter *Engine) {
			if err := os.RemoveAll(waiter.liveness.dir); err != nil {
				t.Fatal(err)
			}
		},
		"the holder cannot write": func(t *testing.T, holder, _ *Engine) { holder.liveness.dir += ".elsewhere" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eh, ew, holder, turn := holderAndWaiter(t, filepath.Join(t.TempDir(), "pawl.db"))
			time.Sleep(2 * firstLooks)
			spoil(t, eh, ew)
			if err := holder.Leave(t.Context(), mutex("a")); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-turn:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second): // a beat would come later, and the expiry in an hour
				t.Error("the turn did not come")
			}
		})
	}
}

// A stopped process does not read its socket. Others must not wait for it, and it must not
// miss its turn when it goes on.
func TestAFullSocketKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	eh, ew := openFile(t, path), openFile(t, path)
	for range 100_000 {
		eh.liveness.tell([]string{ew.liveness.id}, nil)
	}
	holder, waiter := session(t, eh, time.Hour), session(t, ew, time.Hour)
	enter(t, holder, mutex("a"))
	enter(t, waiter, mutex("b"))
	if err := holder.Leave(t.Context(), mutex("a")); err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, waiter, mutex("b"))
}

// The kernel bounds what has come from one socket and was not read.
func TestManyStoppedProcessesKeepNobodyFromBeingTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 400 {
		id := fmt.Sprint(i)
		s := makeTurnSocket(dir, id)
		defer s.close()
		for range 20 {
			_, _ = sendTurn(dir, id, turnCame) // an error once it is full
		}
	}
	s := makeTurnSocket(dir, "last")
	defer s.close()
	if _, err := sendTurn(dir, "last", turnCame); err != nil {
		t.Fatal(err)
	}
	var b [8]byte
	if n, err := s.file.Read(b[:]); err != nil || string(b[:n]) != "t" {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// A backup, a search or an indexer opens all that it finds, and reads it to its end.
func TestAProgramThatReadsAllFilesOfTheFolderIsNotKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	eh, ew, holder, turn := holderAndWaiter(t, path)
	files, err := filepath.Glob(path + ".live/*")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// A process of its own: one that closes a database gives up its locks on it.
	cat := exec.CommandContext(ctx, "cat", append(files, path)...)
	cat.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cat.CombinedOutput()
	if ctx.Err() != nil || strings.Count(string(out), "No such device or address") != 2 {
		t.Errorf("%v, %q: %v", ctx.Err(), out, err)
	}
	if !eh.liveness.allTell() || !ew.liveness.allTell() {
		t.Error("they do not tell each other any more")
	}
	if err := holder.Leave(t.Context(), mutex("a")); err != nil {
		t.Fatal(err)
	}
	if err := <-turn; err != nil {
		t.Error(err)
	}
}

// The kernel's addresses have 107 bytes.
func TestALongPathHasATurnToo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("a", 100), strings.Repeat("b", 100))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pawl.db")
	a, b := openFile(t, path), openFile(t, path)
	if !a.liveness.allTell() || !b.liveness.allTell() {
		t.Error("they do not tell each other")
	}
}

func TestOnlyASocketThatOthersReachTells(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path, others string) error{
		"it has none":                      func(*testing.T, string, string) error { return nil },
		"a pipe, as of an earlier version": func(_ *testing.T, path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"a file":                           func(_ *testing.T, path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"a link to another's":              func(_ *testing.T, path, others string) error { return os.Symlink(others, path) },
		"one that nobody has open": func(_ *testing.T, path, _ string) error {
			return makeTurnSocket(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), turnSuffix)).file.Close()
		},
		"another user's": func(t *testing.T, path, _ string) error {
			t.Cleanup(makeTurnSocket(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), turnSuffix)).close)
			if os.Geteuid() != 0 {
				t.Skip("needs root to give a socket away")
			}
			return os.Chown(path, 65534, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pawl.db")
			tells, old := openFile(t, path), openFile(t, path, WithNetwork())
			own := tells.liveness.turns.file.Name()
			if info, err := os.Lstat(own); err != nil || info.Mode() != os.ModeSocket|0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if err := spoil(t, filepath.Join(old.liveness.dir, old.liveness.id+turnSuffix), own); err != nil {
				t.Fatal(err)
			}
			if tells.liveness.allTell() {
				t.Error("taken for one that tells")
			}
			tells.liveness.tell([]string{old.liveness.id}, nil) // and nobody is kept by it
		})
	}
}

// WithNetwork makes an engine that neither has a socket nor tells, as a program of an
// earlier version does.
func TestAProcessThatDoesNotTellIsPolled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	tells, old := openFile(t, path), openFile(t, path, WithNetwork())
	a, b := session(t, tells, time.Hour), session(t, old, time.Hour)
	if tells.liveness.allTell() || old.liveness.allTell() {
		t.Error("taken for one that tells")
	}
	for i := range 20 { // by each to the other
		s, w := a, b
		if i%2 == 1 {
			s, w = b, a
		}
		from, to := mutex(fmt.Sprint("from", i)), mutex(fmt.Sprint("to", i))
		enter(t, s, from)
		enter(t, w, to)
		turn := awaitInBackground(t, w, to)
		if err := s.Leave(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		if err := <-turn; err != nil {
			t.Fatal(err)
		}
		if err := w.Leave(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSocketOfADeadProcessIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	e := openFile(t, path)
	holder, _ := start(t, "hold", path, "job")
	kill(t, holder)
	c := mutex("next")
	if st := enter(t, session(t, e, time.Minute), c); !st.Held {
		t.Errorf("not held after the holder was killed: %+v", st)
	}
	// An earlier version removes the liveness file alone, and one had pipes.
	orphan := filepath.Join(e.liveness.dir, e.liveness.namespace+"-0123456789abcdef"+turnSuffix)
	if err := unix.Mkfifo(orphan, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(orphan, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	mine := writeFile(t, filepath.Join(e.liveness.dir, "notes"+turnSuffix), "a user's")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(e.liveness.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), e.liveness.id) && f.Name() != filepath.Base(mine) {
			t.Errorf("left: %s", f.Name())
		}
	}
	os.Remove(mine)
}

// A process that opens a file that has its tables only reads it.
func TestOpenDoesNotWaitForAWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	openFile(t, path)
	start(t, "write", path) // until the test ends
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, path)
	if err != nil {
		t.Fatalf("Open while another process writes: %v", err)
	}
	_ = e.Close()
}
