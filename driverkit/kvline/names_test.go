package kvline

import (
	"strings"
	"testing"
)

func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "jobs/42", "a.b", "a=2E", "=", "*", ">", " ", "é", "a\x00b", strings.Repeat("x", 300)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := encode(name)
		if strings.ContainsFunc(key, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/-_=", r)
		}) {
			t.Errorf("%q is encoded as %q", name, key)
		}
		if back, ok := decode(key); !ok || back != name {
			t.Errorf("%q is decoded as %q, %v", key, back, ok)
		}
		if back, ok := decode(name); ok && encode(back) != name {
			t.Errorf("%q is decoded as %q, which is encoded as %q", name, back, encode(back))
		}
	})
}
