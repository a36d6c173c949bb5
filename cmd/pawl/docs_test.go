package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// called matches a pawl command line in a document.
var called = regexp.MustCompile("(?:`|[$] |^    |^go run [.]/cmd/)pawl ((?:-s \\S+ )?)([a-z][a-z-]*)((?: --?[a-zA-Z][a-z-]*)*)")

// Readers type what the documents show.
func TestTheDocumentsNameOnlyVerbsAndFlagsThatThereAre(t *testing.T) {
	t.Parallel()
	root := (&app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).root()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "examples", "README.md")) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			for _, m := range called.FindAllStringSubmatch(line, -1) {
				found++
				if why := unknown(root, m[2], strings.Fields(m[3])); why != "" {
					t.Errorf("%s: %s: %s", filepath.Base(page), strings.TrimSpace(line), why)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d calls were found", found)
	}
}

// unknown returns what does not exist of a verb and its flags.
func unknown(root *cobra.Command, verb string, flags []string) string {
	for _, cmd := range root.Commands() {
		if cmd.Name() != verb {
			continue
		}
		for _, flag := range flags {
			name := strings.TrimLeft(flag, "-")
			long := strings.HasPrefix(flag, "--")
			if long && cmd.Flags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil && name != "help" {
				return "no flag " + flag
			}
			if !long && (len(name) != 1 || cmd.Flags().ShorthandLookup(name) == nil && root.PersistentFlags().ShorthandLookup(name) == nil) {
				return "no flag " + flag
			}
		}
		return ""
	}
	return "no verb " + verb
}
