package pawl_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// eachFile calls visit with every file of the repository that is not a product
// or a fixture, in order.
func eachFile(fsys fs.FS, visit func(name string) error) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name != "." && errors.Is(err, fs.ErrNotExist):
			return nil // a scratch file that went away during the walk
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.Type().IsRegular(), name == ".git": // of a worktree: where its repository is
			return nil
		}
		return visit(name)
	})
}

// inOtherModule reports whether a file is below a go.mod that is not the root's.
func inOtherModule(fsys fs.FS, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := fs.Stat(fsys, dir+"/go.mod"); err == nil {
			return true
		}
	}
	return false
}

// missingDocs returns the packages without a comment, and the exported names
// without one that begins with the name. Struct fields may go without, and so
// may the members of a group of constants or variables that has a comment.
func missingDocs(fsys fs.FS) (faults []string, err error) {
	commented := map[string]bool{} // by folder
	err = eachFile(fsys, func(name string) error {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		commented[path.Dir(name)] = commented[path.Dir(name)] || file.Doc != nil
		if file.Name.Name == "main" {
			return nil
		}
		for id, doc := range exported(file) {
			if !opensWith(doc, id.Name) {
				faults = append(faults, fmt.Sprintf("%s: the comment of %s is missing or does not begin with its name", fset.Position(id.Pos()), id.Name))
			}
		}
		return nil
	})
	for _, dir := range slices.Sorted(maps.Keys(commented)) {
		if !commented[dir] {
			faults = append(faults, fmt.Sprintf("package in %s: no package comment", dir))
		}
	}
	return faults, err
}

// exported yields each exported name that needs a comment of its own, with it.
func exported(file *ast.File) func(yield func(*ast.Ident, *ast.CommentGroup) bool) {
	return func(yield func(*ast.Ident, *ast.CommentGroup) bool) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) && !yield(d.Name, d.Doc) {
					return
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					for _, id := range needy(d, spec) {
						if !yield(id, specDoc(spec, d)) {
							return
						}
					}
				}
			}
		}
	}
}

// needy returns the exported names of one spec that no group comment covers.
func needy(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if d.Doc != nil && (d.Lparen.IsValid() || len(s.Names) > 1) {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(s.Names), func(id *ast.Ident) bool { return !id.IsExported() })
	}
	return nil
}

// specDoc returns the comment of a spec, which without parentheses is its declaration's.
func specDoc(spec ast.Spec, d *ast.GenDecl) (doc *ast.CommentGroup) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		doc = s.Doc
	case *ast.ValueSpec:
		doc = s.Doc
	}
	if doc == nil && !d.Lparen.IsValid() {
		doc = d.Doc
	}
	return doc
}

// receiver returns the name of the type a method belongs to.
func receiver(d *ast.FuncDecl) string {
	for t := d.Recv.List[0].Type; ; {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func opensWith(doc *ast.CommentGroup, name string) bool {
	words := strings.Fields(doc.Text())
	if len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
		words = words[1:]
	}
	return len(words) > 0 && strings.TrimRight(words[0], ",:;") == name
}

var (
	// notHere are words that tie the repository to one machine or one network.
	// What an @ follows is the user of a URL, and no path.
	notHere = regexp.MustCompile(`(^|[^\w.)}$-])/(root|work)([^\w@]|$)|(proxy|sum)\.golang\.org`)
	// inNotHere are words of which every match of notHere has one. Few files do, and
	// the expression is slow under the race detector.
	inNotHere = []string{"/" + "root", "/" + "work", ".golang" + ".org"}
	// emptyNames are names of files that say nothing of what is in them.
	emptyNames = regexp.MustCompile(`(?i)util|helper`)
)

// strayWords returns the files whose name or text has what no file should.
func strayWords(fsys fs.FS) (faults []string, err error) {
	err = eachFile(fsys, func(name string) error {
		if m := emptyNames.FindString(name); m != "" {
			faults = append(faults, fmt.Sprintf("%s: name it for its idea, not %q", name, m))
		}
		if path.Base(name) == "go.sum" { // hashes may spell anything
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil || bytes.IndexByte(src, 0) >= 0 || !slices.ContainsFunc(inNotHere, func(word string) bool { return bytes.Contains(src, []byte(word)) }) {
			return err
		}
		n := 0
		for line := range bytes.Lines(src) {
			n++
			if m := notHere.Find(line); m != nil {
				faults = append(faults, fmt.Sprintf("%s:%d: %q belongs to one machine or network", name, n, bytes.TrimSpace(m)))
			}
		}
		return nil
	})
	return faults, err
}

// strayTests returns the tests that make test would never run, or would run in
// the wrong pass: files without the race detector and TestNoRace belong together.
func strayTests(fsys fs.FS) (faults []string, err error) {
	err = eachFile(fsys, func(name string) error {
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil || !bytes.Contains(src, []byte("!race")) && !bytes.Contains(src, []byte("TestNoRace")) {
			return err // with neither there is nothing to belong together
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		apart := withoutRace(file)
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv != nil || !strings.HasPrefix(d.Name.Name, "Test") || d.Name.Name == "TestMain" {
				continue
			}
			if named := strings.HasPrefix(d.Name.Name, "TestNoRace"); named != apart {
				faults = append(faults, fmt.Sprintf("%s: %s: tests named TestNoRace, and only they, live in files with //go:build !race", name, d.Name.Name))
			}
		}
		return nil
	})
	return faults, err
}

// withoutRace reports whether a file's build line keeps it out under the race detector.
func withoutRace(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && constraint.IsGoBuild(c.Text) {
				return strings.Contains(c.Text, "!race")
			}
		}
	}
	return false
}

func TestExportedNamesAreDocumented(t *testing.T) {
	expectNone(t, missingDocs)
}

func TestNothingNamesAMachineAndNoFileIsNamedForNothing(t *testing.T) {
	expectNone(t, strayWords)
}

func TestTestsWithoutRaceAreNamedSo(t *testing.T) {
	expectNone(t, strayTests)
}

// expectNone runs a checker on the repository.
func expectNone(t *testing.T, check func(fs.FS) ([]string, error)) {
	t.Helper()
	faults, err := check(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestMissingDocsAreCaught(t *testing.T) {
	faults, err := missingDocs(fstest.MapFS{
		"good/good.go": {Data: []byte(`// Package good is documented.
package good

// A Lock holds.
type Lock[T any] struct{ Field int }

// Name, as given.
func (l *Lock[T]) Name() {}

func (l *lock) Exported() {}

// Words of one group.
const (
	One = 1
	Two = 2
)

var (
	// ErrOne is alone.
	ErrOne int
)
`)},
		"good/good_test.go": {Data: []byte("package good\n\nfunc Bare() {}\n")},
		"cmd/x/main.go":     {Data: []byte("// The command x.\npackage main\n\nfunc Bare() {}\n")},
		"bad/bad.go": {Data: []byte(`package bad

type Bare struct{}

// Does something.
func (b Bare) Wrong() {}

type (
	// Inner is fine.
	Inner int
	Outer int
)

var A, B int

const (
	C = 1
)

func (Bare) None() {}
`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	const rest = " is missing or does not begin with its name"
	expectFaults(t, faults, []string{
		"bad/bad.go:3:6: the comment of Bare" + rest,
		"bad/bad.go:6:15: the comment of Wrong" + rest,
		"bad/bad.go:11:2: the comment of Outer" + rest,
		"bad/bad.go:14:5: the comment of A" + rest,
		"bad/bad.go:14:8: the comment of B" + rest,
		"bad/bad.go:17:2: the comment of C" + rest,
		"bad/bad.go:20:13: the comment of None" + rest,
		"package in bad: no package comment",
	})
}

func TestStrayWordsAreCaught(t *testing.T) {
	home, host := "/"+"root", "proxy."+"golang.org"
	faults, err := strayWords(fstest.MapFS{
		"a.go":           {Data: []byte("package a // orders/work/1, ./root/x, $HOME/work, network/rooted, mysql://root@db/app\n")},
		"bin/tool":       {Data: []byte(home + "/go")},
		"go.sum":         {Data: []byte(host)},
		"picture.png":    {Data: []byte("\x89PNG\x00 " + home)},
		"string_util.go": {Data: []byte("package a\n")},
		"x/notes.md":     {Data: []byte("first\nHOME=" + home + "\n")},
		"x/run.sh":       {Data: []byte("cd " + home + "/x\ncurl https://" + host + "/\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	expectFaults(t, faults, []string{
		`string_util.go: name it for its idea, not "util"`,
		`x/notes.md:2: "=` + home + `" belongs`,
		`x/run.sh:1: "` + home + `/" belongs`,
		`x/run.sh:2: "` + host + `" belongs`,
	})
}

func TestStrayTestsAreCaught(t *testing.T) {
	faults, err := strayTests(fstest.MapFS{
		"a_test.go": {Data: []byte("package a\n\nfunc TestOne() {}\nfunc TestMain() {}\nfunc TestNoRaceHere() {}\n")},
		"b_test.go": {Data: []byte("//go:build !race && !windows\n\npackage a\n\nfunc TestNoRaceHeap() {}\nfunc TestLost() {}\nfunc BenchmarkX() {}\n")},
		"c_test.go": {Data: []byte("//go:build linux\n\npackage a\n\nfunc TestLinux() {}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	expectFaults(t, faults, []string{
		"a_test.go: TestNoRaceHere: tests named TestNoRace",
		"b_test.go: TestLost: tests named TestNoRace",
	})
}
