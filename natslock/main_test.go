package natslock

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run in parallel than there are processors: most of them wait
// for a claim to expire or for an election.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
