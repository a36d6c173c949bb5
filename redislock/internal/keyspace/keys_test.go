package keyspace

import (
	"strings"
	"testing"
)

// The expected slots are the answers of CLUSTER KEYSLOT.
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
		s := New(prefix, "engine", true)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		for _, name := range oddNames {
			want := slot(s.Hold(name))
			for _, key := range append(s.Of(name).All(), s.Line(name), s.Fence(name), s.Record(name), s.Channel(name), s.Departures(name)) {
				if got := slot(key); got != want {
					t.Errorf("prefix %q, name %q: %q is in slot %d, the hold in %d", prefix, name, key, got, want)
				}
			}
		}
	}
}

func TestABadPrefixIsReported(t *testing.T) {
	for _, prefix := range []string{"{", "a{b", "{}", "{}:"} {
		if New(prefix, "engine", true).Check() == nil {
			t.Errorf("prefix %q was accepted for a cluster", prefix)
		}
	}
	for _, prefix := range []string{"a\x01b", "a\nb", "\xff"} {
		if New(prefix, "engine", false).Check() == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}

func TestTheKeysOfANameAreThoseMadeOneByOne(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		s := New("pawl:", "engine", cluster)
		for _, name := range oddNames {
			line := s.Line(name)
			if got, want := s.Of(name), (Keys{s.Hold(name), line, s.Fence(name), line + "\x01w", line + "\x01l"}); got != want {
				t.Errorf("cluster %v, name %q: %q, not %q", cluster, name, got, want)
			}
		}
	}
}

func TestANameIsFoundAgainInItsKeys(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		s := New("pawl:", "engine", cluster)
		for _, name := range oddNames {
			for _, key := range []string{s.Hold(name), s.Line(name)} {
				if got, ok := s.Name(key); !ok || got != name {
					t.Errorf("cluster %v: the name of %q is %q, %v, not %q", cluster, key, got, ok, name)
				}
			}
			keys := s.Of(name)
			for _, key := range []string{s.Fence(name), s.Record(name), keys.Waiting, keys.Expiries, "other:" + name, "pawl:"} {
				if got, ok := s.Name(key); ok {
					t.Errorf("cluster %v: %q was taken for a key of the name %q", cluster, key, got)
				}
			}
		}
	}
}
