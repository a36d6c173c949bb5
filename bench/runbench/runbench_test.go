package runbench

import (
	"strings"
	"testing"
	"time"
)

func TestACommandThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string // empty: no error
	}{
		{[]string{"true"}, ""},
		{[]string{"sh", "-c", "echo no lock >&2; exit 3"}, "exit status 3: no lock"},
		{[]string{"no-such-command"}, "not found"},
	} {
		l, err := command("x", nil, c.args...).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		took, err := l.(*process).Time(t.Context(), 0)
		switch {
		case c.want == "" && (err != nil || took <= 0 || took > time.Minute):
			t.Errorf("%q: %v, %v", c.args, took, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
