package sqlstore

import (
	"slices"
	"testing"
)

func TestTranslate(t *testing.T) {
	const text = "-- a comment with :name\nSELECT {max}(:try, :need) FROM {head} WHERE name = :name AND try < :try"
	for _, c := range []struct {
		placeholder string
		numbered    bool
		want        string
		params      []Param
	}{
		{"$", true, "SELECT greatest($1, $2) FROM h WHERE name = $3 AND try < $1", []Param{Try, Need, Name}},
		{"?", false, "SELECT greatest(?, ?) FROM h WHERE name = ? AND try < ?", []Param{Try, Need, Name, Try}},
	} {
		x := Syntax{Macros: map[string]string{"head": "h", "max": "greatest"}, Placeholder: c.placeholder, Numbered: c.numbered}
		s, err := x.Translate(text)
		if err != nil || s.Text != c.want || !slices.Equal(s.Params, c.params) {
			t.Errorf("%q, %v, %v; want %q, %v", s.Text, s.Params, err, c.want, c.params)
		}
		for _, wrong := range []string{"SELECT :nonsense", "SELECT {nonsense}"} {
			if _, err := x.Translate(wrong); err == nil {
				t.Errorf("%q was translated", wrong)
			}
		}
	}
}

func TestEveryParameterHasOneKindAndOneName(t *testing.T) {
	var a Args
	seen := map[Param]string{}
	for name, p := range paramNames {
		if kinds := []bool{p.IsText(), p.IsInt(), p == Value, p.IsList()}; len(slices.DeleteFunc(kinds, func(b bool) bool { return !b })) != 1 {
			t.Errorf("%s is not of one kind", name)
		}
		a.Arg(p) // does not panic
		if other, twice := seen[p]; twice {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[p] = name
	}
}
