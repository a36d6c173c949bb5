package verify_test

import (
	"os"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/planted"
	"github.com/pawl-go/pawl/cmd/pawl/internal/verify"
)

const (
	workerVerb    = "worker"
	crashingVerb  = "crashing-worker"
	crashingAfter = 6 * time.Second
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && (os.Args[1] == workerVerb || os.Args[1] == crashingVerb) {
		if os.Args[1] == crashingVerb {
			time.AfterFunc(crashingAfter, func() { os.Exit(3) })
		}
		_ = verify.Work(os.Stdin, os.Stdout) // its coordinator was told why
		return
	}
	os.Exit(m.Run())
}

// A run that cannot go on is no result, unless a promise was broken before.
func TestAViolationIsToldAlsoIfTheRunEndsEarly(t *testing.T) {
	t.Parallel()
	for bug, broken := range map[string]bool{"": false, "token repeated": true} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			s, err := planted.Serve(bug)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, err := verify.Run(t.Context(), verify.Config{
				Program: os.Args[0], Args: []string{os.Args[0], crashingVerb}, Planted: s.Addr(), Prefix: "run/",
				Length: time.Minute, TTL: time.Second, Workers: 2, Lanes: 2, Seed: 1,
			})
			const says = "a worker ended by itself: exit status 3"
			switch {
			case !broken && (r != nil || err == nil || err.Error() != says):
				t.Errorf("%+v, %v, not %q", r, err, says)
			case broken && (err != nil || r.Report.Holds() || r.Cut == nil || r.Cut.Error() != says || r.Length <= 0 || r.Length >= time.Minute):
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A long run must not keep more than fits into memory. With one attempt allowed, workers
// work until the first look at how much they have done.
func TestALongRunRests(t *testing.T) {
	t.Parallel()
	s, err := planted.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	attempts := func(most int) int {
		r, err := verify.Run(t.Context(), verify.Config{
			Program: os.Args[0], Args: []string{os.Args[0], workerVerb}, Planted: s.Addr(), Prefix: "run/",
			Length: 10 * time.Second, TTL: time.Second, Workers: 2, Lanes: 2, Faults: []string{"reset"}, Most: most, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Report.Gravest(); v != nil || r.Counts.Grants == 0 {
			t.Errorf("%+v, %+v", v, r.Counts)
		}
		return len(r.History.Attempts)
	}
	most, all := attempts(1), attempts(0)
	if most > all/2 {
		t.Errorf("%d attempts where one is allowed, and %d without a limit", most, all)
	}
}
