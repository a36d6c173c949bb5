package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/memlock"
)

// A loop that goes on after errors, as the documentation says, must not go on for ever.
func TestObserveEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := 0
	for l, err := range election.New(c, "job").Observe(ctx) {
		switch seen++; seen {
		case 1:
			if err != nil || !l.Vacant() {
				t.Fatalf("%+v, %v, not a vacancy", l, err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		case 2:
			if !errors.Is(err, pawl.ErrClosed) {
				t.Fatalf("%+v, %v, not ErrClosed", l, err)
			}
		default:
			t.Fatalf("it goes on: %+v, %v", l, err)
		}
	}
	if seen != 2 {
		t.Errorf("it ended without a word")
	}
}

func TestAnErrorSaysWhichOperationOnWhichElectionFailed(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	defer c.Close()
	_, vacant := election.New(c, "e").Leader(t.Context())
	_, invalid := election.New(c, "e", pawl.WithTTL(-1)).Campaign(t.Context(), "")
	for _, tc := range []struct {
		err, is error
		text    string
	}{
		{vacant, election.ErrNoLeader, `leader of election "e": no leader`},
		{invalid, pawl.ErrInvalid, `campaign in election "e": lock`},
	} {
		e, ok := errors.AsType[*election.Error](tc.err)
		if !ok || e.Name != "e" || !errors.Is(tc.err, tc.is) || !strings.HasPrefix(tc.err.Error(), tc.text) {
			t.Errorf("%v, want %s", tc.err, tc.text)
		}
	}
}
