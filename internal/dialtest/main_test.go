package dialtest_test

import (
	"os"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
)

func TestMain(m *testing.M) { os.Exit(recipetest.MainParallel(m, 3)) }

func taken(t *testing.T, l *pawl.Lease, err error) *pawl.Lease {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
