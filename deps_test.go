package pawl_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/pawl-go/pawl"

// A row says what one package of the module may import, tests apart.
type row struct {
	ours    string // packages of the module, by folder, "pawl" for the root; "engines" for every engine
	stdOnly bool   // nothing from outside but the standard library
	engine  bool   // an engine or a part of one
	tests   string // further packages of the module that its tests may import
}

// rows are the arrows of the house. One that is not here is forbidden: a new
// arrow is a decision about the design, not a line to add in passing.
var rows = map[string]row{
	"driver": {stdOnly: true},
	"pawl":   {ours: "driver internal/claimset internal/jitter", stdOnly: true},

	"driverkit":        {ours: "driver", stdOnly: true},
	"driverkit/kvline": {ours: "driver driverkit", stdOnly: true}, // the line of every store that compares and swaps

	"memlock":   {ours: "driver driverkit", stdOnly: true, engine: true},
	"quorum":    {ours: "quorum/internal/nodes driver driverkit internal/jitter", stdOnly: true, engine: true},
	"redislock": {ours: "redislock/internal/redisengine", stdOnly: true, engine: true},
	"etcdlock":  {ours: "etcdlock/internal/etcdkeys etcdlock/internal/etcdstore driver driverkit", engine: true},
	"zklock":    {ours: "zklock/internal/zkpath zklock/internal/zkstore driver driverkit", engine: true},
	"natslock":  {ours: "natslock/internal/natsstore driver driverkit driverkit/kvline", engine: true},
	// What OnceTx remembers, once must read: both have it from once/record.
	"sqllock":                     {ours: "sqllock/internal/sqlline sqllock/internal/sqlstore driver once/record internal/recordenc", stdOnly: true, engine: true, tests: "once"},
	"sqllock/internal/sqlline":    {ours: "sqllock/internal/sqlstore driver driverkit once/record", stdOnly: true, engine: true}, // the line
	"sqllock/internal/sqlstore":   {ours: "driver driverkit", stdOnly: true, engine: true},                                       // below it: statements, and nothing of claims
	"sqllock/internal/sqlitefile": {ours: "driver driverkit"},                                                                    // where the file may be: for the engine and its examiner

	"etcdlock/internal/etcdstore": {ours: "driver driverkit", engine: true},
	"quorum/internal/nodes":       {ours: "driver driverkit", stdOnly: true, engine: true},
	"zklock/internal/zkstore":     {ours: "driver driverkit", engine: true},

	// What an engine and its examiner both read of a URL.
	"etcdlock/internal/etcdkeys":  {stdOnly: true},
	"zklock/internal/zkpath":      {ours: "driver driverkit", stdOnly: true},
	"natslock/internal/natsstore": {ours: "driver driverkit"},

	"etcdlock/etcddoctor": {ours: "doctor driver driverkit etcdlock/internal/etcdkeys etcdlock/internal/etcdstore"},
	"zklock/zkdoctor":     {ours: "doctor driver driverkit zklock/internal/zkpath zklock/internal/zkstore"},
	"natslock/natsdoctor": {ours: "doctor driver driverkit natslock/internal/natsstore"},

	"redislock/goredis": {ours: "redislock redislock/internal/redisengine redislock/internal/redisclient driver driverkit", engine: true, tests: "redislock/internal/adaptertest"},
	"redislock/rueidis": {ours: "redislock redislock/internal/redisengine redislock/internal/redisclient redislock/internal/redisurl driver driverkit", engine: true, tests: "redislock/internal/adaptertest"},

	// The URL is read in one place, for the engine and for its examiner.
	"redislock/internal/adaptertest": {ours: "redislock driver drivertest pawl internal/faultproxy internal/stalltest internal/testserver"}, // the suite of both adapters
	"redislock/internal/redisurl":    {ours: "redislock redislock/internal/redisengine driver driverkit"},
	"redislock/redisdoctor":          {ours: "redislock/internal/redisurl redislock/internal/redisclient redislock/internal/keyspace doctor driver"},
	"redlock/redlockdoctor":          {ours: "redlock/internal/redlockurl redislock/redisdoctor quorum doctor driver"},

	// The client's package knows no claims; the lines above it know no socket.
	"redislock/internal/redisclient": {ours: "driver", stdOnly: true, engine: true},
	"redislock/internal/keyspace":    {ours: "redislock/internal/redisclient driver", stdOnly: true, engine: true},
	"redislock/internal/redisline":   {ours: "redislock/internal/redisclient redislock/internal/keyspace driver driverkit", stdOnly: true, engine: true},
	"redislock/internal/scriptless":  {ours: "redislock/internal/redisclient redislock/internal/keyspace driver driverkit", stdOnly: true, engine: true},
	"redislock/internal/redisengine": {ours: "redislock/internal/redisclient redislock/internal/keyspace redislock/internal/redisline redislock/internal/scriptless driver", stdOnly: true, engine: true},

	"sqllock/sqlite":                      {ours: "sqllock/internal/sqlitefile sqllock/internal/sqlline sqllock/internal/sqlstore driver driverkit", engine: true},
	"sqllock/postgres":                    {ours: "sqllock/internal/sqlline sqllock/internal/sqlstore driver driverkit", engine: true},
	"sqllock/mysql":                       {ours: "sqllock/internal/sqlline sqllock/internal/sqlstore driver driverkit", engine: true},
	"sqllock/sqldoctor":                   {ours: "sqllock/sqldoctor/postgresdoctor sqllock/sqldoctor/mysqldoctor sqllock/sqldoctor/sqlitedoctor", stdOnly: true},
	"sqllock/sqldoctor/internal/sqlexam":  {ours: "sqllock/internal/sqlline sqllock/internal/sqlstore doctor driver", stdOnly: true},
	"sqllock/sqldoctor/internal/examtest": {ours: "internal/doctortest doctor driver", stdOnly: true},
	"sqllock/sqldoctor/postgresdoctor":    {ours: "sqllock/sqldoctor/internal/sqlexam sqllock/postgres doctor", stdOnly: true, tests: "sqllock/sqldoctor/internal/examtest"},
	"sqllock/sqldoctor/mysqldoctor":       {ours: "sqllock/sqldoctor/internal/sqlexam sqllock/mysql doctor driver", tests: "sqllock/sqldoctor/internal/examtest"},
	"sqllock/sqldoctor/sqlitedoctor":      {ours: "sqllock/sqldoctor/internal/sqlexam sqllock/internal/sqlitefile sqllock/internal/sqlline sqllock/internal/sqlstore sqllock/sqlite doctor driver", tests: "sqllock/sqldoctor/internal/examtest"},
	"redlock":                             {ours: "redlock/internal/redlockurl quorum redislock redislock/rueidis driver driverkit", engine: true},
	"redlock/internal/redlockurl":         {ours: "quorum driver driverkit", stdOnly: true},

	"election":      {ours: "pawl driver internal/recipe", stdOnly: true},
	"once":          {ours: "pawl driver internal/recipe once/record", stdOnly: true},
	"once/record":   {ours: "driver internal/recordenc", stdOnly: true}, // apart, so that an engine may write it
	"once/httponce": {ours: "once pawl", stdOnly: true},                 // apart, so that once does not link net/http
	"cell":          {ours: "pawl driver internal/recipe", stdOnly: true},
	"fence":         {stdOnly: true},
	"doctor":        {ours: "driver", stdOnly: true},        // below the examiners, which are beside their engines
	"observe":       {ours: "pawl election", stdOnly: true}, // below the exporters, which are modules of their own

	"engines":    {ours: "engines"},
	"drivertest": {ours: "driver pawl"},
	"cmd/pawl":   {ours: "engines pawl doctor redislock/redisdoctor redlock/redlockdoctor driver election once cell internal/lockbench cmd/pawl/internal/claimview cmd/pawl/internal/dashboard cmd/pawl/internal/verify cmd/pawl/internal/verifyreport internal/history etcdlock/etcddoctor zklock/zkdoctor natslock/natsdoctor sqllock/sqldoctor"},

	"cmd/pawl/internal/claimview": {ours: "pawl driver election", stdOnly: true},
	"cmd/pawl/internal/pagestyle": {stdOnly: true},
	"cmd/pawl/internal/dashboard": {ours: "pawl driver election cmd/pawl/internal/claimview cmd/pawl/internal/pagestyle", stdOnly: true}, // neither cobra nor an engine

	"cmd/pawl/internal/planted":                   {ours: "driver driverkit memlock internal/history", stdOnly: true}, // engines with bugs, for the self-test of verify
	"cmd/pawl/internal/verify":                    {ours: "pawl driver driverkit fence internal/history internal/faultdial cmd/pawl/internal/planted"},
	"cmd/pawl/internal/verifyreport":              {ours: "internal/history cmd/pawl/internal/claimview cmd/pawl/internal/pagestyle", stdOnly: true},
	"cmd/pawl/internal/verifyreport/renderreport": {ours: "cmd/pawl/internal/verifyreport", stdOnly: true}, // the page alone, for tests in a browser

	"examples/orders": {ours: "pawl driver memlock once once/httponce sqllock sqllock/sqlite"},
	"examples/cron":   {ours: "pawl memlock once", stdOnly: true},
	"examples/leader": {ours: "pawl memlock election", stdOnly: true},
	"examples/fenced": {ours: "pawl memlock fence", stdOnly: true},

	"internal/stalltest":    {stdOnly: true},
	"internal/callorder":    {stdOnly: true},
	"internal/passwordleak": {stdOnly: true},
	"internal/claimset":     {ours: "driver", stdOnly: true}, // the state of claims, apart from all that calls and waits
	"internal/conntest":     {stdOnly: true},
	"internal/doctortest":   {ours: "doctor pawl", stdOnly: true},
	"internal/dialtest":     {stdOnly: true, tests: "doctor redislock/redisdoctor redlock/redlockdoctor etcdlock/etcddoctor zklock/zkdoctor natslock/natsdoctor sqllock/sqldoctor"},
	"internal/eventcheck":   {ours: "pawl internal/faultproxy internal/recipetest"},
	"internal/faultdial":    {stdOnly: true}, // apart from the tests' faultproxy, because the command links it
	"internal/faultproxy":   {},
	"internal/history":      {}, // pure: neither pawl nor a clock, so that a simulation and real processes are judged alike
	"internal/historytest":  {ours: "driver internal/history", stdOnly: true},
	"internal/holdcheck":    {ours: "pawl internal/testserver"},
	"internal/jitter":       {stdOnly: true},
	"internal/lockbench":    {ours: "pawl", stdOnly: true}, // apart from the command, so that its laws are tested without a terminal
	"internal/recordenc":    {stdOnly: true},
	"internal/recipe":       {ours: "pawl driver internal/jitter internal/recordenc", stdOnly: true},
	"internal/recipetest":   {ours: "pawl driver engines internal/faultproxy internal/testserver"},
	"internal/sim":          {ours: "pawl driver memlock quorum once cell election internal/history internal/jitter", stdOnly: true},
	"internal/soaktest":     {ours: "pawl driver internal/faultproxy internal/testserver"},
	"internal/testserver":   {},
	"internal/teststores":   {ours: "pawl engines internal/recipetest internal/testserver"},
	"scripts/callorder":     {ours: "internal/callorder", stdOnly: true},
	"scripts/testreport":    {stdOnly: true},
	"scripts/trust":         {ours: "internal/testserver internal/teststores"},
}

func (r row) allows(ours string) bool {
	words := strings.Fields(r.ours)
	return slices.Contains(words, ours) || slices.Contains(words, "engines") && rows[ours].engine
}

// allowsTest is looser: a test may stand on any engine, on the suite and on
// what is there for tests only.
func (r row) allowsTest(self, ours string) bool {
	switch ours {
	case self, "driver", "pawl", "drivertest", "engines":
		return true
	}
	return r.allows(ours) || rows[ours].engine || strings.HasPrefix(ours, "internal/") ||
		slices.Contains(strings.Fields(r.tests), ours)
}

// forbiddenArrows reads the imports of every Go file of the module, those for
// other systems and behind build tags too, which go list for one system hides.
func forbiddenArrows(fsys fs.FS) (faults []string, err error) {
	unknown := map[string]bool{}
	err = eachFile(fsys, func(name string) error {
		if !strings.HasSuffix(name, ".go") || inOtherModule(fsys, name) {
			return nil
		}
		self := path.Dir(name)
		if self == "." {
			self = "pawl"
		}
		r, known := rows[self]
		if !known {
			unknown[self] = true
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if fault := r.fault(self, imported, strings.HasSuffix(name, "_test.go")); fault != "" {
				faults = append(faults, name+": "+fault)
			}
		}
		return nil
	})
	for _, self := range slices.Sorted(maps.Keys(unknown)) {
		faults = append(faults, fmt.Sprintf("package %s is unknown: add it to rows in deps_test.go: what it may import, and whether it uses only the standard library", self))
	}
	return faults, err
}

// fault says what is wrong with one import of package self, or nothing.
func (r row) fault(self, imported string, test bool) string {
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	if imported == module {
		ours, isOurs = "pawl", true
	}
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case isOurs && test && !r.allowsTest(self, ours):
		return fmt.Sprintf("the tests of %s must not import %s", self, ours)
	case isOurs && !test && !r.allows(ours):
		return fmt.Sprintf("%s must not import %s", self, ours)
	case !isOurs && !test && r.stdOnly && strings.Contains(first, "."):
		return fmt.Sprintf("%s keeps to the standard library and must not import %s", self, imported)
	}
	return ""
}

// moduleFaults says what must not be in the go.mod of a module that others
// install: go install refuses replace, and a toolchain line makes users download.
func moduleFaults(gomod string) (faults []string) {
	for _, m := range regexp.MustCompile(`(?m)^\s*(replace|toolchain)\b.*`).FindAllString(gomod, -1) {
		faults = append(faults, "go.mod: no such line here: "+strings.TrimSpace(m))
	}
	return faults
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	faults, err := forbiddenArrows(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestGoModHasNoReplaceAndNoToolchain(t *testing.T) {
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range moduleFaults(string(gomod)) {
		t.Error(f)
	}
}

func TestForbiddenArrowsAreCaught(t *testing.T) {
	source := func(pkg string, imports ...string) *fstest.MapFile {
		src := "package " + pkg + "\n"
		for _, i := range imports {
			src += "import _ " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(src)}
	}
	const redis = "github.com/redis/go-redis/v9"
	faults, err := forbiddenArrows(fstest.MapFS{
		// allowed
		"lock.go":                     source("pawl", "context", module+"/driver"),
		"lock_test.go":                source("pawl_test", module, module+"/memlock", module+"/drivertest", "go.uber.org/goleak"),
		"sqllock/lock.go":             source("sqllock", "database/sql", module+"/driver"),
		"sqllock/lock_test.go":        source("sqllock_test", module+"/sqllock/sqlite", module+"/internal/testserver"),
		"redislock/goredis/client.go": source("goredis", redis, module+"/redislock"),
		"engines/engines.go":          source("engines", module+"/sqllock/mysql", module+"/redlock"),
		"cmd/pawl/run.go":             source("main", module+"/engines", module, module+"/once", "github.com/spf13/cobra"),
		"e2e/go.mod":                  {Data: []byte("module e2e\n")},
		"e2e/far/far.go":              source("far", "example.com/anything"),
		"driver/testdata/odd.go":      source("odd", module+"/memlock"),
		// forbidden
		"driver/driver.go":         source("driver", module+"/memlock"),
		"memlock/line.go":          source("memlock", module),
		"memlock/line_test.go":     source("memlock", module+"/once"),
		"quorum/vote_windows.go":   source("quorum", redis),
		"zklock/lock.go":           source("zklock", module+"/etcdlock"),
		"election/election.go":     source("election", module+"/engines"),
		"stray/stray.go":           source("stray", "context"),
		"engines/more.go":          source("engines", module+"/once"),
		"fence/file.go":            source("fence", module+"/driver"),
		"internal/faultproxy/p.go": source("faultproxy", module+"/driver"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"driver/driver.go: driver must not import memlock",
		"election/election.go: election must not import engines",
		"engines/more.go: engines must not import once",
		"fence/file.go: fence must not import driver",
		"internal/faultproxy/p.go: internal/faultproxy must not import driver",
		"memlock/line.go: memlock must not import pawl",
		"memlock/line_test.go: the tests of memlock must not import once",
		"quorum/vote_windows.go: quorum keeps to the standard library and must not import " + redis,
		"zklock/lock.go: zklock must not import etcdlock",
		"package stray is unknown: add it to rows in deps_test.go",
	}
	expectFaults(t, faults, want)

	gomod := "module m\n\ngo 1.26.0\n\ntoolchain go1.26.8\n\nreplace a => ../a\n\nreplace (\n\tb => ../b\n)\n"
	expectFaults(t, moduleFaults(gomod), []string{
		"go.mod: no such line here: toolchain go1.26.8",
		"go.mod: no such line here: replace a => ../a",
		"go.mod: no such line here: replace (",
	})
	expectFaults(t, moduleFaults("module m\n\ngo 1.26.0\n\nrequire example.com/replace v1.0.0\n"), nil)
}

// expectFaults compares what a checker found with the beginnings of what it should.
func expectFaults(t *testing.T, got, want []string) {
	t.Helper()
	same := slices.EqualFunc(got, want, strings.HasPrefix)
	if !same {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
