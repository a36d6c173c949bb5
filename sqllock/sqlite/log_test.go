package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Every short use of a file leaves a little in the log, and one of them carries
// it over: the log neither costs each of them a sync nor grows for ever.
func TestTheLogStaysBehindAndStaysSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	var kept, carried int
	var last uint64
	for range 60 {
		e, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		st := enter(t, session(t, e, time.Minute), mutex("x"))
		if !st.Held || st.Token <= last {
			t.Fatalf("token %d after %d: %+v", st.Token, last, st)
		}
		last = st.Token
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		switch info, err := os.Stat(path + "-wal"); {
		case os.IsNotExist(err):
			carried++
		case err != nil:
			t.Fatal(err)
		case info.Size() > smallLog:
			t.Fatalf("a log of %d bytes stayed behind", info.Size())
		default:
			kept++
		}
	}
	if carried == 0 || kept < 10*carried {
		t.Errorf("the log stayed %d times and was carried over %d times", kept, carried)
	}
}

// While a transaction that reads is open the log cannot start over, and grows. When it
// has ended, the next locks give the disk back what is beyond the usual size.
func TestTheLogIsSmallAgainAfterALongRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	e := openFile(t, path)
	s := session(t, e, time.Minute)
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	visit := func(n int) {
		for range n {
			c := mutex("x")
			enter(t, s, c)
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader := openFile(t, path) // its connection that reads stands for another process
	c, err := reader.store.acquireReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.db.Exec("BEGIN; SELECT * FROM pawl_meta"); err != nil {
		t.Fatal(err)
	}
	visit(1000)
	grown := size()
	if err := c.db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	c.release()
	visit(10)
	if grown <= 5<<20 || size() > 5<<20 {
		t.Errorf("the log had %d bytes during the read, and has %d after it", grown, size())
	}
}
