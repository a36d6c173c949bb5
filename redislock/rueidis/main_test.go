package rueidis_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run in parallel than there are processors: many
// of them wait for a lease to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
