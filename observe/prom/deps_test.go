package prom_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The program serves the page, and chooses the engine: this package must not bring either.
func TestOnlyTheCollectorIsImported(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := false
	for pkg := range strings.FieldsSeq(string(out)) {
		const client = "github.com/prometheus/client_golang/prometheus"
		found = found || pkg == client
		if strings.HasPrefix(pkg, client+"/") && !strings.HasPrefix(pkg, client+"/internal") ||
			strings.HasPrefix(pkg, "github.com/pawl-go/") && strings.HasSuffix(pkg, "lock") {
			t.Errorf("it imports %s", pkg)
		}
	}
	if !found {
		t.Error("the client library is not among its imports")
	}
}
