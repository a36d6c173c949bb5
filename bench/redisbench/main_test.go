package redisbench

import (
	"os"
	"testing"

	"github.com/pawl-go/pawl/bench/contest"
)

// The test binary is one of many processes too.
func TestMain(m *testing.M) {
	openers := map[string]contest.Opener{}
	for name, open := range Openers {
		openers["redis/"+name] = open
	}
	contest.Child(openers)
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or each of them would end a second late
	os.Exit(m.Run())
}
