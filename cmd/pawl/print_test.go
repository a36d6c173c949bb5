//go:build linux

package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// No two names are shown alike: invisible characters are escaped, and names that
// contain such escapes literally are shown differently.
func TestDifferentNamesAreShownDifferently(t *testing.T) {
	t.Parallel()
	parts := []string{"", "a", " ", `"`, `\`, "\u200b", `\u200b`, "u200b", "\x1b", `\x1b`, "\ufe0f", "\xff", `\xff`, "ÿ", "\n", `\n`}
	seen := map[string]string{}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				name := a + b + c
				shown := claimview.ShownName(name)
				if other, ok := seen[shown]; ok && other != name {
					t.Fatalf("%q and %q are both shown as %s", name, other, shown)
				}
				seen[shown] = name
				if shown != strings.TrimSpace(shown) || claimview.EscapeHidden(shown) != shown || shown == "" {
					t.Errorf("%q is shown as %q", name, shown)
				}
			}
		}
	}
	for _, name := range []string{"deploy", `it's "4.2" 🚀`, `C:\temp`, "a b"} {
		if claimview.ShownName(name) != name {
			t.Errorf("%s is shown as %s", name, claimview.ShownName(name))
		}
	}
}

// A name that cannot be typed is confirmed in the form in which it is shown.
func TestForceUnlockTakesAnInvisibleNameAsItIsShown(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	const name, shown = "deploy\u200b", `"deploy\u200b"`
	env.hold(name)
	env.hold("deploy")
	if out := env.run("pawl", "ls").out; !strings.Contains(out, "\n"+shown+" ") || !strings.Contains(out, "\ndeploy ") {
		t.Errorf("ls: %s", out)
	}
	for typed, code := range map[string]int{"deploy": 1, `deploy\u200b`: 1} {
		x := env.terminal(200, "pawl", "force-unlock", name)
		x.shows(`Type the lock's name to break it: `)
		x.types(typed + "\n")
		x.ends(code)
	}
	x := env.terminal(200, "pawl", "force-unlock", name)
	x.shows(regexp.QuoteMeta(shown) + ` is held`)
	x.shows(`Type the lock's name to break it: `)
	x.types(shown + "\n")
	x.ends(0)
	if all := env.list("ls", "--json"); len(all) != 1 || all[0]["name"] != "deploy" {
		t.Errorf("left: %v", all)
	}
}

// Only print.go, which escapes, writes to the command's output, except for the two
// lines that are redrawn in place.
func TestOnlyPrintGoWrites(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains([]string{"print.go", "waitdisplay.go", "progress.go"}, file) {
			continue
		}
		fset := gotoken.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			places := slices.Clone(call.Args[:min(1, len(call.Args))])
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(fun.Sel.Name, "Write") {
				places = append(places, fun.X)
			}
			if ok && strings.HasPrefix(fun.Sel.Name, "Print") && isIdent(fun.X, "fmt") {
				t.Errorf("%s: fmt.%s", fset.Position(n.Pos()), fun.Sel.Name)
			}
			writes := ok && (strings.HasPrefix(fun.Sel.Name, "Fprint") || strings.HasPrefix(fun.Sel.Name, "Write") || fun.Sel.Name == "NewEncoder")
			for _, place := range places {
				if at, ok := place.(*ast.SelectorExpr); ok && writes && slices.Contains([]string{"out", "err", "Stdout", "Stderr"}, at.Sel.Name) {
					t.Errorf("%s writes by itself: use print, say or printJSON", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
