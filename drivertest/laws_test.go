package drivertest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var lawStart = regexp.MustCompile(`^ {1,2}(\d+)\. (.*)$`)

// TestLawsAreThoseOfTheContract compares the laws that failing cases print with the
// package comment of driver.
func TestLawsAreThoseOfTheContract(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "driver", "doc.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	written := map[int]string{}
	last := 0
	for line := range strings.SplitSeq(f.Doc.Text(), "\n") {
		if m := lawStart.FindStringSubmatch(line); m != nil {
			last, _ = strconv.Atoi(m[1])
			written[last] = m[2]
		} else if last > 0 && strings.HasPrefix(line, "    ") {
			written[last] += " " + strings.TrimSpace(line)
		} else if strings.HasPrefix(line, "#") {
			last = 0
		}
	}
	if len(written) != len(laws)-1 {
		t.Fatalf("package driver has %d laws, the suite %d", len(written), len(laws)-1)
	}
	for n, text := range written {
		if laws[n] != text {
			t.Errorf("law %d of package driver:\n%s\nthe suite prints:\n%s", n, text, laws[n])
		}
	}
}

func TestEveryLawHasACase(t *testing.T) {
	covered := map[int]int{}
	seen := map[string]bool{}
	for _, c := range cases() {
		covered[c.law]++
		if c.why == "" || c.run == nil || seen[c.title()] {
			t.Errorf("case %q: no reason, nothing to run, or there twice", c.title())
		}
		seen[c.title()] = true
	}
	for n := 1; n < len(laws); n++ {
		if covered[n] == 0 {
			t.Errorf("law %d has no case: %s", n, laws[n])
		}
	}
	t.Logf("cases per law: %v", covered)
}
