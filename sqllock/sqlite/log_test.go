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
