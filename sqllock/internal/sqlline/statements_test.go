package sqlline

import (
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

func TestEveryStatementIsUsedAndSaysWhatItTakes(t *testing.T) {
	d := &Dialect{Syntax: sqlstore.Syntax{
		Macros: map[string]string{
			"head": "h", "claim": "c", "record": "r", "now": "clock()", "wall": "wall()",
			"mint": "mint()", "max": "greatest", "unguarded": "free",
		},
		Placeholder: "$", Numbered: true,
	}}
	if _, err := compile(d); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for f := range reflect.TypeFor[statements]().Fields() {
		known[fileName(f.Name)] = true
	}
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		t.Fatal(err)
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

var paramPattern = regexp.MustCompile(`:([a-z]+)`)

// checkHeader compares the parameters that the header names, left of the arrow, with
// those that the statement has.
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
