package drivertest

import (
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// nameCases use names that look alike.
var nameCases = []lawCase{
	{name: "different names never block each other", law: 13, run: namesApart,
		why: "Some thirty names that a store, a file system, a pattern or a case folding would take for one another are all held at once."},
	{name: "lines of different names never meet", law: 13, needs: needs{queue: true}, run: linesApart,
		why: "Under every name one holds and one waits; one Leave lets in that name's waiter alone."},
	{name: "a long name is a name", law: 13, run: longNames,
		why: "Names of 255 bytes that differ in the last one, or only in the case of one letter, are different."},
}

// similarNames returns names that differ only in details that a careless engine
// drops or interprets. word must be unique to the case and contain lower-case
// letters.
func similarNames(word string) []string {
	return []string{
		word, strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:],
		word + " ", " " + word, word + "  ", word + "\u00a0", word + "\u200b",
		word + "/", "/" + word, word + "//", word + "/.", word + "/..", word + "/a", word + "/a/",
		word + ":line", word + ":", word + ".line", word + "{a}", "{" + word + "}", "{" + word + "}a",
		word + "%", word + "_", word + "*", word + "?", word + "[a-z]", word + `\`, word + `\0`, word + "%00",
		word + "'", word + `"`, word + "`", word + ";--", word + "$1", word + "#", word + "&=",
		word + "é", word + "e\u0301", word + "ß", word + "ss", word + "ẞ", word + "ı", word + "i", word + "İ",
		word + "🔒", word + "０", word + "0", word + "00", word + "\ufffd",
	}
}

// uniqueWord returns a word with letters that no other case uses.
func (f *fixture) uniqueWord() string { return "name" + f.name }

func namesApart(f *fixture) {
	a, b := f.open(), f.open()
	names := similarNames(f.uniqueWord())
	held := map[string]driver.Claim{}
	for i, name := range names {
		c := withName(withoutQueue(f.claim()), name)
		s := a
		if i%2 == 1 {
			s = b
		}
		if st := s.mustEnter(c); !st.Held {
			f.Errorf("%q is blocked by one of %q: %+v", name, names[:i], st)
			continue
		}
		held[name] = c
	}
	for i, name := range names {
		c, ok := held[name]
		if !ok {
			continue
		}
		s := a
		if i%2 == 1 {
			s = b
		}
		if e := f.entry(c); e.Name != name {
			f.Errorf("%q is listed as %q", name, e.Name)
		}
		s.mustLeave(c)
	}
}

func linesApart(f *fixture) {
	a, b := f.open(), f.open()
	names := similarNames(f.uniqueWord())
	holds, waits := map[string]driver.Claim{}, map[string]driver.Claim{}
	for _, name := range names {
		holds[name], waits[name] = withName(f.claim(), name), withName(f.claim(), name)
		a.mustHold(holds[name])
		b.mustWait(waits[name])
	}
	for i, name := range names {
		a.mustLeave(holds[name])
		for j, other := range names[i:min(i+4, len(names))] {
			if st := b.mustEnter(waits[other]); st.Held != (j == 0) {
				f.Errorf("the holder of %q left; the waiter of %q: %+v", name, other, st)
			}
		}
		b.mustLeave(waits[name])
	}
}

func longNames(f *fixture) {
	a := f.open()
	base := f.uniqueWord() + strings.Repeat("x", 255)
	long := []string{
		base[:255], base[:254] + "y", base[:254] + "X", base[:254] + " ", base[:254],
		base[:253] + "é", base[:251] + "🔒", "X" + base[:254],
	}
	for _, name := range long {
		c := withName(withoutQueue(f.claim()), name)
		if st := a.mustEnter(c); !st.Held {
			f.Errorf("a name of %d bytes that ends in %q is not free: %+v", len(name), name[len(name)-5:], st)
			continue
		}
		if e := f.entry(c); e.Name != name {
			f.Errorf("%q is listed as %q", name, e.Name)
		}
	}
}
