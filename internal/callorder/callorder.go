// Package callorder finds which files of a folder call which, so that a test can hold
// the folder to an order of its files in which calls go down.
package callorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Call is a use of a function or method that another file of the same package
// declares. Calls through an interface or a function value are not seen.
type Call struct {
	From, To string // files, without their folder; foo_linux.go and foo_other.go are both foo.go
	Caller   string // the declaration that contains the call
	Callee   string
}

// String shows the call as "a.go: f calls g in b.go".
func (c Call) String() string {
	return fmt.Sprintf("%s: %s calls %s in %s", c.From, c.Caller, c.Callee, c.To)
}

// A Folder is the files of one package, tests apart, and the calls between them.
type Folder struct {
	Dir   string // relative to the module's root, "." for the root itself
	Files []string
	Calls []Call // each pair of caller and callee once
}

// Load type-checks the packages of the module in dir that match the patterns.
func Load(dir string, patterns ...string) ([]Folder, error) {
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module"}, patterns...)...)
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var wanted []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			wanted = append(wanted, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var folders []Folder
	for _, p := range wanted {
		f, err := p.folder(fset, imports)
		if err != nil {
			return nil, err
		}
		folders = append(folders, f)
	}
	return folders, nil
}

// listed is what go list tells about one package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  struct{ Dir string }
}

func (p listed) folder(fset *token.FileSet, imports types.Importer) (Folder, error) {
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return Folder{}, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, parsed, info)
	if err != nil {
		return Folder{}, err
	}
	rel, err := filepath.Rel(p.Module.Dir, p.Dir)
	if err != nil {
		return Folder{}, err
	}
	folder := Folder{Dir: filepath.ToSlash(rel)}
	for _, f := range parsed {
		folder.Files = append(folder.Files, base(fset, f.Pos()))
	}
	for _, f := range parsed {
		folder.Calls = append(folder.Calls, calls(fset, f, pkg, info)...)
	}
	slices.Sort(folder.Files)
	folder.Files = slices.Compact(folder.Files)
	return folder, nil
}

// calls returns the calls from f to functions of pkg in other files.
func calls(fset *token.FileSet, f *ast.File, pkg *types.Package, info *types.Info) (found []Call) {
	from := base(fset, f.Pos())
	for _, decl := range f.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			callee, ok := info.Uses[id].(*types.Func)
			if !ok || callee.Pkg() != pkg || isAbstract(callee) {
				return true
			}
			call := Call{From: from, To: base(fset, callee.Pos()), Caller: declName(decl), Callee: callee.Name()}
			if call.From != call.To && !slices.Contains(found, call) {
				found = append(found, call)
			}
			return true
		})
	}
	return found
}

// isAbstract reports whether f is a method of an interface.
func isAbstract(f *types.Func) bool {
	recv := f.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

func declName(decl ast.Decl) string {
	if f, ok := decl.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return "a declaration"
}

// variants are the last words of the names of files that are built for some systems only.
var variants = []string{"linux", "darwin", "windows", "unix", "bsd", "other"}

// base returns the name of the file at pos without its folder and its variant.
func base(fset *token.FileSet, pos token.Pos) string {
	name := strings.TrimSuffix(filepath.Base(fset.Position(pos).Filename), ".go")
	if i := strings.LastIndexByte(name, '_'); i > 0 && slices.Contains(variants, name[i+1:]) {
		name = name[:i]
	}
	return name + ".go"
}
