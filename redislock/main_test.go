package redislock_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run in parallel than there are processors: most
// of them wait for a lease to expire, or to be renewed.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
