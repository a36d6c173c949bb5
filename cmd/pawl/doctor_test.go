//go:build unix

package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestDoctorPrintsATableAndExitsWithTheWorstLevel(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	good := testserver.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	p := env.run("pawl", "doctor", "-s", "redis://"+good.Addr())
	if p.code != 0 || p.err != "" || !regexp.MustCompile(`(?m)^ok  +eviction policy  +maxmemory-policy is noeviction$`).MatchString(p.out) ||
		!regexp.MustCompile(`\n16 ok\n$`).MatchString(p.out) || strings.Contains(p.out, "mend") {
		t.Errorf("all is well: %+v", p)
	}
	lossy := testserver.Redis(t)
	p = env.with("PAWL_STORE=redis://"+lossy.Addr()).run("pawl", "doctor")
	if p.code != 1 || p.err != "" || !strings.Contains(p.out, "\nwarning  persistence ") ||
		!regexp.MustCompile(`\n  means  A server that restarts .*\n  mend   CONFIG SET appendonly yes appendfsync always\nok `).MatchString(p.out) ||
		!strings.HasSuffix(p.out, "\n1 warning, 15 ok\n") || strings.Contains(p.out, "\x1b") {
		t.Errorf("a warning: %+v", p)
	}
	evicting := testserver.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	p = env.run("pawl", "doctor", "-s", "redis://"+evicting.Addr())
	if p.code != 2 || p.err != "" || !strings.Contains(p.out, "\nbroken   eviction policy ") || !strings.HasSuffix(p.out, "\n1 broken, 1 warning, 14 ok\n") {
		t.Errorf("something broken: %+v", p)
	}
	columns := map[int]bool{}
	for line := range strings.Lines(p.out) {
		if m := regexp.MustCompile(`^(ok|warning|broken) +`).FindString(line); m != "" {
			columns[len(m)] = true
		}
	}
	if len(columns) != 1 {
		t.Errorf("the columns are not aligned:\n%s", p.out)
	}
}

func TestDoctorJSONHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	s := testserver.Redis(t)
	p := env.with("PAWL_STORE=redis://default:@"+s.Addr()).run("pawl", "doctor", "--json")
	var all struct {
		Store, Level string
		Findings     []object
	}
	decoder := json.NewDecoder(strings.NewReader(p.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil || p.code != 1 || p.err != "" {
		t.Fatalf("%v: %+v", err, p)
	}
	if all.Store != "redis://"+s.Addr() || all.Level != "warning" || len(all.Findings) < 10 {
		t.Errorf("%+v", all)
	}
	levels := map[string]int{}
	for _, f := range all.Findings {
		levels[f["level"].(string)]++
		want := []string{"check", "found", "level"}
		if f["level"] != "ok" {
			want = append(want, "meaning", "mend")
		}
		if got := slices.Sorted(maps.Keys(f)); !slices.Equal(got, want) {
			t.Errorf("%v has %q, want %q", f, got, want)
		}
	}
	if levels["warning"] != 1 || levels["ok"] != len(all.Findings)-1 {
		t.Errorf("%v", levels)
	}
}

func TestDoctorSaysInOneLineWhyItCannotExamine(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "--requirepass", "right")
	for store, says := range map[string]string{
		"nosuch://ana:hunter@host":                "unknown scheme",
		"redis://ana:hunter@127.0.0.1:1":          "connection refused",
		"redis-cluster://ana:hunter@127.0.0.1:1":  "connection refused",
		"redlock://ana:hunter@h1":                 "no such host",
		"redis://:hunter@" + s.Addr():             "access denied",
		"redis://:hunter@" + s.Addr() + "?x=y":    "unknown parameter",
		"redis://:hunter@" + s.Addr() + "?ttl=no": "ttl is not a duration",
		"mem:":   "mem: store has nothing to examine, stores that have are ",
		"hunter": "it has no scheme",
	} {
		p := newTestEnv(t).with("PAWL_STORE="+store).run("pawl", "doctor")
		if p.code != 2 || p.out != "" || strings.Count(p.err, "\n") != 1 || !strings.HasPrefix(p.err, "pawl: ") || strings.Contains(p.err, "hunter") {
			t.Errorf("%s: %+v", store, p)
		}
		if says != "no such host" && !strings.Contains(p.err, says) { // resolvers word that differently
			t.Errorf("%s: %q lacks %q", store, p.err, says)
		}
	}
	if p := newTestEnv(t).run("pawl", "doctor", "now"); p.code != 64 {
		t.Errorf("an argument: %+v", p)
	}
}

func TestEveryStoreThatServersShareHasAnExaminer(t *testing.T) {
	t.Parallel()
	examined := doctor.Schemes()
	for _, scheme := range []string{
		"etcd", "etcds", "mysql", "nats", "postgres", "postgresql", "redis", "redis-cluster", "redis-sentinel", "rediss", "redlock", "sqlite", "zk",
	} {
		if _, known := driver.Lookup(scheme); !known || !slices.Contains(examined, scheme) {
			t.Errorf("%s: known %v, examined %q", scheme, known, examined)
		}
	}
}
