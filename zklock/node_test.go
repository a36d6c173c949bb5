package zklock

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func FuzzNamesAreEncodedWithoutLoss(f *testing.F) {
	for _, s := range []string{"a", ".", "..", "a/b", "a%2Fb", "é", "🔒", " ", "\x00", "zookeeper", strings.Repeat("/", 255)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node := encode(text)
		if text != "" && (node == "" || node == "." || node == ".." || strings.ContainsAny(node, "/\x00 ")) {
			t.Errorf("%q becomes %q, which is no name of a node", text, node)
		}
		if back, ok := decode(node); !ok || back != text {
			t.Errorf("%q becomes %q and that %q, %v", text, node, back, ok)
		}
	})
}

func TestForeignEncodingsAreNoNames(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"a b", "%", "%2", "%2f", "%41", ".a", "é", "%zz"} {
		if text, ok := decode(node); ok {
			t.Errorf("%q is read as %q", node, text)
		}
	}
}

func TestANodesNameTellsItsClaim(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		want  node
		ours  bool
		fails bool
	}{
		{name: "p.x.0000000017", want: node{"p.x.0000000017", 1, 1, 17, ""}, ours: true},
		{name: "p.s.2.5.0000000017", want: node{"p.s.2.5.0000000017", 2, 5, 17, ""}, ours: true},
		{name: "p.x.2147483647", want: node{"p.x.2147483647", 1, 1, 1<<31 - 1, ""}, ours: true},
		{name: "p.x.-2147483648", want: node{"p.x.-2147483648", 1, 1, -1 << 31, ""}, ours: true},
		{name: "p.x.-000000005", want: node{"p.x.-000000005", 1, 1, -5, ""}, ours: true},
		{name: "p.x.0123456789abcdef.2147483647", want: node{"p.x.0123456789abcdef.2147483647", 1, 1, 1<<31 - 1, "0123456789abcdef"}, ours: true},
		{name: "p.s.2.5.0123456789abcdef.2147483647", want: node{"p.s.2.5.0123456789abcdef.2147483647", 2, 5, 1<<31 - 1, "0123456789abcdef"}, ours: true},
		{name: "stray"},
		{name: "p.x."},
		{name: "p.x.abc"},
		{name: "p.s.5.5.x"},
		{name: "lock-0000000001", fails: true},
		{name: "_c_0123-lock-0000000001", fails: true},
		{name: "0123__lock__0000000001", fails: true},
		{name: "lock--2147483648", fails: true},
		{name: "p.s.6.5.0000000017", fails: true}, // more than there is: not made by us
		{name: "p.s.0.5.0000000017", fails: true},
	} {
		got, ours, err := parseNode(test.name)
		if got != test.want || ours != test.ours || (err != nil) != test.fails || err != nil && !errors.Is(err, errForeign) {
			t.Errorf("%q: %+v, %v, %v", test.name, got, ours, err)
		}
	}
}

func TestDataTellsTheRestOfAClaim(t *testing.T) {
	t.Parallel()
	c := driver.Claim{ID: newID(), Try: 3, Need: 2, Limit: 5, Queue: true, Note: "ana @ ci 7 \n é"}
	data := encodeData(0xabc, "session", c)
	d, ok := parseData(data)
	if !ok || d.Claim != c || d.zkSession != 0xabc || d.session != "session" {
		t.Errorf("%q: %+v, %v", data, d, ok)
	}
	for _, foreign := range []string{"", "p1", "left", "p1 x y z 1 2 3 4 5", "127.0.0.1", "p1 0123456789abcdef"} {
		if _, ok := parseData([]byte(foreign)); ok {
			t.Errorf("%q is taken for ours", foreign)
		}
	}
}
