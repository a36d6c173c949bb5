package pawl_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/callorder"
)

// An order is the files of one folder from top to bottom, as ARCHITECTURE.md lists them.
type order struct {
	files      []string
	exceptions map[[2]string]bool // caller's and callee's file of calls that may go up
}

var (
	orderMark = regexp.MustCompile(`^<!-- order: (\S+) -->$`)
	upMark    = regexp.MustCompile(`^<!-- up: (\S+\.go) to (\S+\.go) -->$`)
	fileName  = regexp.MustCompile("`([a-z0-9_]+\\.go)`")
)

// readOrders returns the orders of a page, by folder: after a line that names the
// folder, the files of the next paragraph in the order in which it names them, and the
// exceptions that are marked there.
func readOrders(page string) map[string]*order {
	orders := map[string]*order{}
	var now *order
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if m := orderMark.FindStringSubmatch(line); m != nil {
			now = &order{exceptions: map[[2]string]bool{}}
			orders[m[1]] = now
			continue
		}
		switch m := upMark.FindStringSubmatch(line); {
		case line == "":
			now = nil
		case now == nil:
		case m != nil:
			now.exceptions[[2]string{m[1], m[2]}] = true
		default:
			for _, m := range fileName.FindAllStringSubmatch(line, -1) {
				now.files = append(now.files, m[1])
			}
		}
	}
	return orders
}

// orderFaults returns what a folder has that its order does not allow.
func orderFaults(f callorder.Folder, o *order) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, f.Dir+": "+fmt.Sprintf(format, args...))
	}
	for _, file := range f.Files {
		if !slices.Contains(o.files, file) && file != "doc.go" {
			fault("%s is not listed", file)
		}
	}
	for _, file := range o.files {
		if !slices.Contains(f.Files, file) {
			fault("%s is listed and not there", file)
		}
	}
	unused := maps.Clone(o.exceptions)
	for _, call := range f.Up(o.files) {
		pair := [2]string{call.From, call.To}
		delete(unused, pair)
		if !o.exceptions[pair] {
			fault("a call goes up: %s", call)
		}
	}
	for pair := range unused {
		fault("no call goes up from %s to %s, yet it is excepted", pair[0], pair[1])
	}
	return faults
}

func TestCallsGoDownInTheOrderThatTheArchitectureLists(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	orders := readOrders(string(page))
	need := []string{".", "driver", "driverkit"}
	for dir, row := range rows {
		if row.engine {
			need = append(need, dir)
		}
	}
	for _, dir := range need {
		if orders[dir] == nil {
			t.Errorf("ARCHITECTURE.md has no order of the files in %s", dir)
		}
	}
	var patterns []string
	for dir := range orders {
		patterns = append(patterns, "./"+dir)
	}
	folders, err := callorder.Load(".", patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		for _, fault := range orderFaults(f, orders[f.Dir]) {
			t.Error(fault)
		}
	}
}

func TestAFolderOutOfOrderIsFound(t *testing.T) {
	folder := callorder.Folder{Dir: "lock", Files: []string{"a.go", "b.go", "doc.go", "new.go"}, Calls: []callorder.Call{
		{From: "a.go", To: "b.go", Caller: "f", Callee: "g"},
		{From: "b.go", To: "a.go", Caller: "g", Callee: "h"},
	}}
	page := "<!-- order: lock -->\n`a.go` first ·\n`b.go` second · `old.go`.\n"
	expectFaults(t, orderFaults(folder, readOrders(page)["lock"]), []string{
		"lock: new.go is not listed",
		"lock: old.go is listed and not there",
		"lock: a call goes up: b.go: g calls h in a.go",
	})
	folder.Files = []string{"a.go", "b.go", "old.go"}
	excepted := page + "<!-- up: b.go to a.go -->\n"
	expectFaults(t, orderFaults(folder, readOrders(excepted)["lock"]), nil)
	expectFaults(t, orderFaults(folder, readOrders(excepted + "<!-- up: b.go to old.go -->\n")["lock"]), []string{
		"lock: no call goes up from b.go to old.go, yet it is excepted",
	})
}
