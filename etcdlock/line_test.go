package etcdlock

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-go/pawl/driver"
)

// TestBlockersAgreeWithDriverPlace compares blockersOf with driver.Place.
func TestBlockersAgreeWithDriverPlace(t *testing.T) {
	t.Parallel()
	sizes := [][2]int{{1, 1}, {5, 5}, {1, 5}, {2, 5}, {4, 5}, {driver.All, driver.All}}
	for range 20_000 {
		var line []driver.Entry
		var ahead []claimKey
		for i := range rand.IntN(8) {
			size := sizes[rand.IntN(len(sizes))]
			c := driver.Claim{ID: string(rune('a' + i)), Need: size[0], Limit: size[1]}
			line = append(line, driver.Entry{Claim: c})
			ahead = slices.Insert(ahead, 0, claimKey{key: c.ID, need: c.Need, limit: c.Limit, exclusive: c.Exclusive()})
		}
		size := sizes[rand.IntN(len(sizes))]
		c := driver.Claim{ID: "me", Need: size[0], Limit: size[1]}
		held, _, blocker, _ := driver.Place(append(line, driver.Entry{Claim: c}), c.ID)
		blockers := blockersOf(c, ahead)
		if held != (len(blockers) == 0) {
			t.Fatalf("Place says held %v of %+v behind %+v; the blockers are %+v", held, c, line, blockers)
		}
		if blocker != "" && !slices.ContainsFunc(blockers, func(m claimKey) bool { return m.key >= blocker }) {
			t.Fatalf("Place says that %s blocks %+v behind %+v; the blockers are %+v", blocker, c, line, blockers)
		}
		// While all blockers are in line, the claim cannot be held, whichever others leave.
		var rest []driver.Entry
		for _, e := range line {
			if slices.ContainsFunc(blockers, func(m claimKey) bool { return m.key == e.ID }) || rand.IntN(2) == 0 {
				rest = append(rest, e)
			}
		}
		if again, _, _, _ := driver.Place(append(rest, driver.Entry{Claim: c}), c.ID); again && !held {
			t.Fatalf("%+v is held behind %+v, though %+v block it", c, rest, blockers)
		}
	}
}

func TestAKeyIsParsedAsItWasWritten(t *testing.T) {
	t.Parallel()
	p, err := newKeyspace("team/a")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "a/", "a/b", "A", "a ", "@line/a", "x", "s", "é", strings.Repeat("n", 255)}
	var all []string
	for _, name := range names {
		line := p.line(name)
		for _, size := range [][2]int{{1, 1}, {3, 3}, {driver.All, driver.All}, {1, 3}, {2, 3}, {1, driver.All}, {driver.All - 1, driver.All}} {
			c := driver.Claim{ID: "id", Try: 7, Name: name, Need: size[0], Limit: size[1], Note: "a \"note\"\n", Queue: true}
			key := line.key(c, 0x694d71ddacfda227, 12)
			all = append(all, key)
			kv := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(encodeValue(c, "session")), CreateRevision: 42}
			m, err := line.parse(kv)
			if err != nil || m.exclusive != c.Exclusive() || m.revision != 42 || !m.exclusive && (m.need != c.Need || m.limit != c.Limit) {
				t.Fatalf("%q is read as %+v, %v", key, m, err)
			}
			e, err := line.entry(name, kv)
			if err != nil || e.Claim != c || e.Session != "session" {
				t.Fatalf("%q is read as %+v, %v", key, e, err)
			}
			inside := line.exclusive()
			if !c.Exclusive() {
				inside = line.limit(c.Limit)
			}
			if !line.all().Holds(key) || !inside.Holds(key) || !c.Exclusive() && line.multiUnit(c.Limit).Holds(key) != (c.Need > 1) {
				t.Errorf("%q is outside its range", key)
			}
			for _, other := range names {
				if other != name && p.line(other).all().Holds(key) {
					t.Errorf("%q lies in the line of %q", key, other)
				}
			}
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(names)*5 { // all exclusive claims of a slot share a key
		t.Errorf("%d different keys", n)
	}
}

func TestAKeyThatIsNotAClaimIsForeign(t *testing.T) {
	t.Parallel()
	line := keyspace("pawl/").line("a")
	for _, tail := range []string{"", "x", "x.", "x0123456789abcdef", "x0123456789abcdef.", "x0123456789abcdef.x", "x0123456789abcdeg.0",
		"s0000000300000001", "s00000003000000010123456789abcdef", "s00000003000000040123456789abcdef.0", "s00000003000000000123456789abcdef.0", "z", "0123"} {
		if m, err := line.parse(&mvccpb.KeyValue{Key: []byte(string(line) + tail)}); err == nil {
			t.Errorf("%q is read as %+v", tail, m)
		}
	}
	good := string(line) + "x0123456789abcdef.0"
	for _, value := range []string{"", "x", "{}", `{"id":"","try":1}`, `{"id":"a"}`, `[1]`} {
		if e, err := line.entry("a", &mvccpb.KeyValue{Key: []byte(good), Value: []byte(value)}); err == nil {
			t.Errorf("%q is read as %+v", value, e)
		}
	}
}

func TestOnePrefixCannotLieInAnother(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a/@line", "@line", "@record/x", "a/@record/b", "a\tb", "\xff"} {
		if p, err := newKeyspace(bad); err == nil {
			t.Errorf("prefix %q is taken, as %q", bad, p)
		}
	}
	spaces := map[keyspace]bool{}
	for _, good := range []string{"", "a", "a/b", "team@prod", "a/@liner"} {
		p, err := newKeyspace(good)
		if err != nil {
			t.Errorf("prefix %q: %v", good, err)
		}
		spaces[p] = true
	}
	for p := range spaces {
		for q := range spaces {
			if p != q && strings.HasPrefix(q.names(""), p.names("")) {
				t.Errorf("the lines of %q lie among those of %q", q, p)
			}
		}
	}
	if len(spaces) != 5 {
		t.Errorf("%d spaces of 5 prefixes", len(spaces))
	}
}
