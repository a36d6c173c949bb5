package sqllock

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func testDialect(mark string, numbered bool) *Dialect {
	return &Dialect{
		Macros: map[string]string{
			"head": "h", "claim": "c", "record": "r", "now": "clock()", "wall": "wall()",
			"mint": "mint()", "max": "greatest", "text": "text", "unguarded": "free",
		},
		Mark: mark, Numbered: numbered,
	}
}

func TestEveryStatementIsUsedAndSaysWhatItTakes(t *testing.T) {
	if _, err := compile(testDialect("$", true)); err != nil {
		t.Fatal(err)
	}
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range names(t) {
		known[name] = true
	}
	for _, path := range paths {
		b, _ := files.ReadFile(path)
		name := strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql")
		if !known[name] {
			t.Errorf("%s is not used", path)
		}
		if !strings.HasPrefix(string(b), "-- "+name+" ") {
			t.Errorf("%s does not begin with its name", path)
		}
		checkHeader(t, path, string(b))
	}
}

func names(t *testing.T) (all []string) {
	t.Helper()
	d := testDialect("?", false)
	d.Statements = map[string]string{}
	q, err := compile(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Query{q.enter, q.end, q.endFree, q.release, q.pass, q.stand, q.again, q.head, q.lock, q.expire, q.prune, q.drop, q.tally, q.prolong, q.join,
		q.raise, q.front, q.promote, q.vacate, q.admit, q.count, q.standing, q.veto, q.beatX, q.beat, q.find, q.beatsX, q.beats, q.rests, q.beatWaitX, q.beatWait, q.still,
		q.departed, q.peek, q.waits, q.rivals,
		q.occupants, q.haunts, q.stuck, q.named, q.buryX, q.bury, q.evictX, q.evict, q.list, q.line, q.load, q.version, q.store, q.create,
		q.erase, q.idle, q.alone, q.mark, q.sweep, q.stale, q.forget, q.guardX, q.guard, q.guardSeenX, q.guardSeen, q.guardMarkX,
		q.onceSeat, q.onceLock, q.onceErase, q.onceFind, q.onceBegin, q.onceStands, q.onceEnd} {
		all = append(all, s.Name)
	}
	return all
}

var paramPattern = regexp.MustCompile(`:([a-z]+)`)

// checkHeader compares the parameters that the header names, left of the
// arrow, with those that the statement has.
func checkHeader(t *testing.T, path, text string) {
	t.Helper()
	said, used := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		comment, isComment := strings.CutPrefix(line, "--")
		for _, m := range paramPattern.FindAllStringSubmatch(line, -1) {
			if !isComment {
				used[m[1]] = true
			}
		}
		if takes, _, ok := strings.Cut(comment, "->"); isComment && ok {
			for _, m := range paramPattern.FindAllStringSubmatch(takes, -1) {
				said[m[1]] = true
			}
		}
	}
	if !maps.Equal(said, used) {
		t.Errorf("%s: says %v, takes %v", path, slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(used)))
	}
}

func TestTranslate(t *testing.T) {
	const text = "-- a comment with :name\nSELECT {max}(:try, :need) FROM {head} WHERE name = :name AND try < :try"
	for _, c := range []struct {
		mark     string
		numbered bool
		want     string
		params   []Param
	}{
		{"$", true, "SELECT greatest($1, $2) FROM h WHERE name = $3 AND try < $1", []Param{Try, Need, Name}},
		{"?", false, "SELECT greatest(?, ?) FROM h WHERE name = ? AND try < ?", []Param{Try, Need, Name, Try}},
	} {
		d := testDialect(c.mark, c.numbered)
		q, err := translate(d, text)
		if err != nil || q.Text != c.want || !slices.Equal(q.Params, c.params) {
			t.Errorf("%q, %v, %v; want %q, %v", q.Text, q.Params, err, c.want, c.params)
		}
	}
	for _, wrong := range []string{"SELECT :nonsense", "SELECT {nonsense}"} {
		d := testDialect("?", true)
		if _, err := translate(d, wrong); err == nil {
			t.Errorf("%q was translated", wrong)
		}
	}
}

func TestEveryParameterHasItsPlace(t *testing.T) {
	var a Args
	for name, p := range paramNames {
		if kinds := []bool{p.IsText(), p.IsInt(), p == Value, p.IsList()}; len(slices.DeleteFunc(kinds, func(b bool) bool { return !b })) != 1 {
			t.Errorf("%s is not of one kind", name)
		}
		a.Arg(p) // does not panic
	}
	seen := map[Param]string{}
	for name, p := range paramNames {
		if other, twice := seen[p]; twice {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[p] = name
	}
}
