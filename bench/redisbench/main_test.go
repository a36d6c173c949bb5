package redisbench

import (
	"os"
	"testing"

	"github.com/pawl-go/pawl/bench/compare"
)

// The test binary also serves as a child process.
func TestMain(m *testing.M) {
	openers := map[string]compare.Opener{}
	for name, open := range Openers {
		openers["redis/"+name] = open
	}
	compare.Child(openers)
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of them would exit a second late
	os.Exit(m.Run())
}
