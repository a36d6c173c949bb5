package callorder_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/internal/callorder"
)

func TestCallsBetweenFilesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example\n\ngo 1.26.0\n",
		"top.go":       "package example\n\ntype T struct{}\n\ntype I interface{ m() }\n\nfunc top(i I) { middle(); new(T).m(); i.m() }\n",
		"middle.go":    "package example\n\nfunc middle() { bottom(); local() }\n\nfunc local() {}\n\nvar hook = bottom\n",
		"low_linux.go": "package example\n\nfunc bottom() {}\n\nfunc (*T) m() { top(nil) }\n",
		"low_other.go": "//go:build !linux\n\npackage example\n\nfunc bottom() {}\n\nfunc (*T) m() { top(nil) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := callorder.Load(dir, ".")
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	f := folders[0]
	if want := []string{"low.go", "middle.go", "top.go"}; !slices.Equal(f.Files, want) {
		t.Errorf("the files are %v, not %v", f.Files, want)
	}
	want := []callorder.Call{
		{From: "low.go", To: "top.go", Caller: "m", Callee: "top"},
		{From: "middle.go", To: "low.go", Caller: "a declaration", Callee: "bottom"},
		{From: "middle.go", To: "low.go", Caller: "middle", Callee: "bottom"},
		{From: "top.go", To: "low.go", Caller: "top", Callee: "m"},
		{From: "top.go", To: "middle.go", Caller: "top", Callee: "middle"},
	}
	slices.SortFunc(f.Calls, func(a, b callorder.Call) int {
		return slices.Compare([]string{a.From, a.To, a.Caller}, []string{b.From, b.To, b.Caller})
	})
	if !slices.Equal(f.Calls, want) {
		t.Errorf("the calls are\n%v, not\n%v", f.Calls, want)
	}
	if order := f.Order(); len(f.Up(order)) != 1 || order[len(order)-1] != "low.go" {
		t.Errorf("the order is %v", order)
	}
}
