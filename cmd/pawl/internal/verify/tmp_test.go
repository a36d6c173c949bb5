package verify_test

import (
	"os"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/verify"
)

func TestTmp(t *testing.T) {
	for i, bug := range []string{"holder is not renewed while another waits", "", "holder is not renewed while another waits", "", "holder is not renewed while another waits", "beat does not prolong", "connection is not replaced", ""} {
		tr := &verify.Trial{Bug: bug}
		tr.Run(t.Context(), verify.Config{Program: os.Args[0], Args: []string{os.Args[0], workerVerb}, Workers: 4, Lanes: 4, Seed: uint64(i + 1)})
		t.Logf("%q passed %v in %v: %+v %v", tr.Bug, tr.Passed(), tr.Took, tr.Found, tr.Err)
	}
}
