package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/stalltest"
)

func TestALivenessCheckBetweenCreateAndLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	first := openFile(t, path)
	for _, removes := range []bool{true, false} {
		var dones []func(bool)
		times := 0
		between := func(o *options) {
			o.created = func() {
				if times++; times > 1 {
					return
				}
				ids, _ := first.liveness.others()
				for _, id := range ids {
					done, dead := first.liveness.ProveDead(id)
					if !dead {
						continue
					}
					if removes {
						done(true)
					} else {
						dones = append(dones, done) // still looking when the owner locks
					}
				}
			}
		}
		second, err := Open(t.Context(), path, between)
		if err != nil {
			t.Fatal(err)
		}
		for _, done := range dones {
			done(true)
		}
		if times != 2 {
			t.Errorf("removed %v: the owner took %d ids, not 2", removes, times)
		}
		if _, dead := first.liveness.ProveDead(second.liveness.id); dead {
			t.Errorf("removed %v: a live owner is taken for dead", removes)
		}
		if _, err := os.Stat(filepath.Join(second.liveness.dir, second.liveness.id)); err != nil {
			t.Errorf("removed %v: %v", removes, err)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMissingLivenessFileSaysNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	a, b := openFile(t, path), openFile(t, path)
	enter(t, session(t, a, time.Minute), mutex("x"))
	if err := os.Remove(filepath.Join(a.liveness.dir, a.liveness.id)); err != nil {
		t.Fatal(err)
	}
	if st := enter(t, session(t, b, time.Minute), mutex("y")); st.Held {
		t.Error("a holder whose file is missing was taken for dead")
	}
}

func TestALivenessFileWithRowsLeftIsLeftForOthersToFind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	a, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, a, time.Hour)
	enter(t, s, mutex("x"))
	a.line.Close()
	// A row that came too late for Close to end it.
	if err := a.store.writer.db.Exec("UPDATE pawl_head SET x_id = 'x', x_until = x_since + 3600000000, x_live = '" + a.liveness.id + "' WHERE name = 'job'"); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := openFile(t, path) // reaps when it opens
	if st := enter(t, session(t, b, time.Minute), mutex("y")); !st.Held {
		t.Errorf("still busy: %+v", st)
	}
}

func TestAStalledLineIsAdvancedByItsWaiters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	a, b := openFile(t, path), openFile(t, path)
	holder, s := session(t, a, time.Minute), session(t, b, time.Minute)
	stalltest.Within(t, time.Second, "the turn came", func() time.Duration {
		enter(t, holder, mutex("x"))
		c := mutex("y")
		enter(t, s, c)
		took := make(chan time.Duration)
		go func() { took <- awaitHeld(t, s, c) }() // received below
		// What a process leaves that dies after it gave back and before it let the next in.
		if err := a.store.writer.db.Exec("UPDATE pawl_head SET x_id = '', x_live = '', x_until = 0"); err != nil {
			t.Fatal(err)
		}
		d := <-took
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return d
	})
}

func TestAnotherTimeNamespaceIsRefusedWhileItsProcessesLive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	e, err := Open(t.Context(), path, withClock(bootedClock("boot", "1", 5)))
	if err != nil {
		t.Fatal(err)
	}
	held := enter(t, session(t, e, time.Hour), mutex("x"))
	other := withClock(bootedClock("boot", "2", 1e12))
	if _, err := Open(t.Context(), path, other); err == nil || !strings.Contains(err.Error(), "time namespace") {
		t.Fatalf("opened from another time namespace: %v", err)
	}
	// The first engine dies without a word: its rows and its file stay.
	if _, err := e.store.close(""); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a child of another test has the file and its lock until it runs its own program
	err = closeFile(e.liveness.file)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	e = openFile(t, path, other)
	if st := enter(t, session(t, e, time.Minute), mutex("y")); !st.Held || st.Token <= held.Token {
		t.Errorf("after the takeover: %+v", st)
	}
	if _, err := Open(t.Context(), path, withClock(bootedClock("boot", "1", 5))); err == nil {
		t.Error("opened again from the first namespace")
	}
}
