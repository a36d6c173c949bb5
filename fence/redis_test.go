package fence_test

import (
	"testing"

	"github.com/pawl-go/pawl/fence"
)

// A number of Lua is written with 14 digits unless one says otherwise: a time in
// microseconds has 16.
func TestTheReplyOfACommandIsToldAsItIs(t *testing.T) {
	t.Parallel()
	r := newInRedis(t).(*inRedis)
	for _, c := range []struct {
		want    string
		command []string
	}{
		{"1700000000000001", []string{"INCRBY", r.key, "1700000000000001"}},
		{"1700000000000001", []string{"GET", r.key}},
		{"-9007199254740992", []string{"INCRBY", r.key, "-10707199254740993"}},
		{"OK", []string{"SET", r.key, "a\x00\xff\r\nb"}},
		{"a\x00\xff\r\nb", []string{"GET", r.key}},
		{"", []string{"GET", r.key + ":none"}},
		{"1", []string{"DEL", r.key}},
	} {
		if got, err := r.marks.Do(t.Context(), fence.Write, base, c.command...); err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.command, got, err, c.want)
		}
	}
}
