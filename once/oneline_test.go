package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/once"
)

// An error text of two lines is kept as it is, and duplicates get it on one line.
func TestAFailureOfTwoLinesIsToldInOne(t *testing.T) {
	t.Parallel()
	c := pawl.New(memlock.New())
	defer c.Close()
	declined := errors.New("declined:\n\tno money\nno credit")
	fails := func(context.Context) (string, error) { return "", declined }
	if _, err := once.Do(t.Context(), c, "k", fails, once.WithKeepErrors()); !errors.Is(err, declined) {
		t.Errorf("the runner gets %v", err)
	}
	_, err := once.Do(t.Context(), c, "k", fails)
	if e, ok := errors.AsType[*once.Error](err); !ok || e.Record.Failure != declined.Error() {
		t.Errorf("what is kept: %+v", e)
	}
	if text := err.Error(); strings.Contains(text, "\n") || !strings.HasSuffix(text, "declined: no money; no credit") {
		t.Errorf("a duplicate gets %q", text)
	}
}
