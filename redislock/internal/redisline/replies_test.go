package redisline

import (
	"fmt"
	"testing"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// While a line is read in parts, a beat prolongs the claims of one session past the place
// that was reached. They come once more, and after them those of a session with a longer
// TTL, which have not been read.
func TestALineIsReadToItsEndWhileABeatProlongsClaims(t *testing.T) {
	part := func(next string, ids ...int) (r redisclient.Reply) {
		r.Array = []redisclient.Reply{{}, {}, {Text: "9"}, {Text: next}, {Int: 1}}
		for _, id := range ids {
			r.Array = append(r.Array, redisclient.Reply{Text: fmt.Sprintf("%032x", id)},
				redisclient.Reply{Text: fmt.Sprintf("0 1 1 %d 1 1 1000 1 - c\x02", id)}, redisclient.Reply{Int: 1000})
		}
		return r
	}
	l := newLineReader("name")
	for _, r := range []redisclient.Reply{part("5", 1, 2), part("8", 1, 2)} {
		if next, n := l.read(r); next != r.Array[3].Text || n != listPart+1 {
			t.Errorf("the next part is %d claims from %q", n, next)
		}
	}
	if next, _ := l.read(part("", 2, 3)); next != "" {
		t.Errorf("after the last part follows one from %q", next)
	}
	if all := l.entries(); len(all) != 3 {
		t.Errorf("%d claims of 3", len(all))
	}
}
