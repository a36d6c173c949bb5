package otelpawl_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The program chooses the SDK: this package must not bring one.
func TestOnlyTheAPIIsImported(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := strings.Fields(string(out))
	api := 0
	for _, pkg := range all {
		switch {
		case pkg == "go.opentelemetry.io/otel/trace" || pkg == "go.opentelemetry.io/otel/metric":
			api++
		case strings.HasPrefix(pkg, "go.opentelemetry.io/otel/sdk"), strings.HasPrefix(pkg, "go.opentelemetry.io/otel/exporters"),
			strings.HasPrefix(pkg, "google.golang.org/"), strings.HasSuffix(pkg, "lock") && strings.HasPrefix(pkg, "github.com/pawl-go/"):
			t.Errorf("it imports %s", pkg)
		}
	}
	if api != 2 {
		t.Errorf("the API is not among its %d imports", len(all))
	}
}
