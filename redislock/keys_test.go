package redislock

import (
	"strings"
	"testing"
)

// The slots of these keys are those that CLUSTER KEYSLOT answers.
func TestSlotsAreTheClustersOwn(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "": 0,
	} {
		if got := slot(key); got != want {
			t.Errorf("slot(%q) is %d, not %d", key, got, want)
		}
	}
}

var oddNames = []string{"a", "a/b", "{a}", "{}", "{a", "a}", "}{", "{{a}}", "{}a{b}", "*?[a]\\", "héllo", strings.Repeat("x", 255)}

func TestAllKeysOfANameAreInOneSlot(t *testing.T) {
	for _, prefix := range []string{"pawl:", "", "{team}:", "a}b:"} {
		l := newLayout(prefix, "engine", true)
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		for _, name := range oddNames {
			want := slot(l.hold(name))
			for _, key := range []string{l.line(name), l.fence(name), l.record(name), l.channel("engine", name), told(l.line(name))} {
				if got := slot(key); got != want {
					t.Errorf("prefix %q, name %q: %q is in slot %d, the hold in %d", prefix, name, key, got, want)
				}
			}
		}
	}
	for _, prefix := range []string{"{", "a{b", "{}", "{}:"} {
		if newLayout(prefix, "engine", true).check() == nil {
			t.Errorf("prefix %q was accepted for a cluster", prefix)
		}
	}
	for _, prefix := range []string{"a\x01b", "a\nb", "\xff"} {
		if newLayout(prefix, "engine", false).check() == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}

func TestANameIsFoundAgainInItsKeys(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		l := newLayout("pawl:", "engine", cluster)
		for _, name := range oddNames {
			for _, key := range []string{l.hold(name), l.line(name)} {
				if got, ok := l.nameOf(key); !ok || got != name {
					t.Errorf("cluster %v: the name of %q is %q, %v, not %q", cluster, key, got, ok, name)
				}
			}
			for _, key := range []string{l.fence(name), l.record(name), l.line(name) + "\x01w", l.line(name) + "\x01l", "other:" + name, "pawl:"} {
				if got, ok := l.nameOf(key); ok {
					t.Errorf("cluster %v: %q was taken for a key of the name %q", cluster, key, got)
				}
			}
		}
	}
}
