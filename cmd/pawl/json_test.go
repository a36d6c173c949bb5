//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// object is a JSON object, decoded without pawl's types.
type object map[string]any

func (env *testEnv) list(args ...string) []object {
	env.t.Helper()
	p := env.run("pawl", args...)
	var all []object
	if err := json.Unmarshal([]byte(p.out), &all); err != nil || p.code != 0 || p.err != "" {
		env.t.Fatalf("pawl %v: code %d, %v\n%s%s", args, p.code, err, p.out, p.err)
	}
	return all
}

// documentedFields are the fields of a claim in --json, with their formats.
var documentedFields = map[string]func(any) bool{
	"name":     isText(`^.+$`),
	"mode":     isText(`^(exclusive|shared|permits)$`),
	"state":    isText(`^(held|waiting)$`),
	"token":    isText(`^[1-9]\d+$`), // a string, because it exceeds JavaScript's integers
	"id":       isText(`^\S+$`),
	"holder":   isText(`^\S+@\S+$`),
	"pid":      isNumber,
	"command":  isText(`^\S+$`),
	"reason":   isText(``),
	"seconds":  isNumber,
	"left":     isNumber,
	"need":     isNumber,
	"limit":    isNumber,
	"ahead":    isNumber,
	"election": isText(`^.+$`),
	"value":    isText(``),
}

func isText(re string) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return ok && regexp.MustCompile(re).MatchString(s)
	}
}

func isNumber(v any) bool {
	_, ok := v.(float64)
	return ok
}

func (o object) check(t *testing.T, want ...string) {
	t.Helper()
	for key, value := range o {
		if is := documentedFields[key]; is == nil {
			t.Errorf("field %q is not documented", key)
		} else if !is(value) {
			t.Errorf("field %q is %v", key, value)
		}
	}
	for _, key := range want {
		if _, ok := o[key]; !ok {
			t.Errorf("field %q is missing in %v", key, o)
		}
	}
}

// commonFields are in every claim of pawl.
var commonFields = []string{"name", "mode", "state", "id", "holder", "pid", "command", "seconds", "left"}

func TestJSONHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 { // creates an empty store
		t.Fatalf("%+v", p)
	}
	for _, args := range [][]string{{"ls", "--json"}, {"inspect", "--json", "x"}} {
		if p := env.run("pawl", args...); p.out != "[]\n" {
			t.Errorf("pawl %v with nothing to list: %q", args, p.out)
		}
	}
	env.hold("x", "--reason", "release 4.2")
	env.hold("readers", "--shared")
	env.hold("slots", "--slots", "3")
	env.start("waiting", "pawl", "run", "-q", "--events", env.path("waiting"), "x", "--", "true")
	var all []object
	if !eventually(func() bool { all = env.list("ls", "--json"); return len(all) == 4 }) {
		t.Fatalf("listed: %v", all)
	}
	byState := map[string]object{}
	for _, o := range all {
		byState[o["name"].(string)+" "+o["state"].(string)] = o
		o.check(t, commonFields...)
	}
	keys := slices.Sorted(maps.Keys(byState))
	if !slices.Equal(keys, []string{"readers held", "slots held", "x held", "x waiting"}) {
		t.Fatalf("listed: %v", keys)
	}
	byState["x held"].check(t, "token", "reason")
	if o := byState["x held"]; o["reason"] != "release 4.2" || o["mode"] != "exclusive" || o["command"] != "sh" {
		t.Errorf("the holder: %v", o)
	}
	if o := byState["x waiting"]; o["ahead"] != 1.0 || o["token"] != nil {
		t.Errorf("the waiter: %v", o)
	}
	if o := byState["slots held"]; o["mode"] != "permits" || o["need"] != 1.0 || o["limit"] != 3.0 {
		t.Errorf("one of the slots: %v", o)
	}
	if o := byState["readers held"]; o["mode"] != "shared" {
		t.Errorf("a reader: %v", o)
	}

	line := env.list("inspect", "--json", "x")
	if len(line) != 2 || line[0]["state"] != "held" || line[1]["state"] != "waiting" || line[0]["id"] != byState["x held"]["id"] {
		t.Errorf("inspect x: %v", line)
	}
	shown := env.run("pawl", "inspect", "x").out
	for _, want := range []string{`held \(exclusive\) by \S+@\S+ pid \d+ sh for `, `reason  release 4\.2`, "token   " + line[0]["token"].(string), `waiting \(exclusive\) by`, `place   1st in line`, `lease   ends in \d+s unless it is renewed`} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("inspect does not show %q:\n%s", want, shown)
		}
	}
	if got := env.run("pawl", "inspect", "nobody").out; !strings.Contains(got, "free: nobody holds it or waits for it") {
		t.Errorf("inspect of a free lock: %q", got)
	}
}

func TestLsTakesABeginningOrWildcards(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	p := env.run("pawl", "run", "--also", "jobs/b/c", "--also", "jobs*", "--also", "other", "jobs/a", "--", "sh", "-c", `
		show() { printf '%s:' "$1"; pawl ls "$@" | sed -n 's/ .*//; 2,$p' | tr '\n' ' '; echo; }
		show jobs; show 'jobs/*'; show 'jobs/?'; show '*o*r'; show '*'; show 'jobs\*'; show '[k-p]*'; show none; show 'jobs/a'`)
	want := `jobs:jobs* jobs/a jobs/b/c 
jobs/*:jobs/a jobs/b/c 
jobs/?:jobs/a 
*o*r:other 
*:jobs* jobs/a jobs/b/c other 
jobs\*:jobs* 
[k-p]*:other 
none:
jobs/a:jobs/a 
`
	if p.out != want || p.code != 0 {
		t.Errorf("got\n%swant\n%s%s", p.out, want, p.err)
	}
}

// watch starts pawl watch --json; said returns its next object.
func (env *testEnv) watch(name string) (watch *exec.Cmd, said func() object) {
	env.t.Helper()
	watch = env.command("pawl", "watch", "--json", name)
	out, err := watch.StdoutPipe()
	if err != nil {
		env.t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		env.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	return watch, func() (o object) {
		env.t.Helper()
		if !lines.Scan() {
			env.t.Fatalf("watch ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			env.t.Fatalf("%v: %s", err, lines.Bytes())
		}
		return o
	}
}

func TestWatchTellsWhatHappens(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	watch, said := env.watch("x")
	next := func() object {
		t.Helper()
		o := said()
		claim := maps.Clone(o)
		delete(claim, "time")
		delete(claim, "event")
		claim.check(t, commonFields...)
		if !isText(`^20\d\d-.*Z$`)(o["time"]) {
			t.Errorf("time: %v", o["time"])
		}
		return o
	}
	first := next()
	if first["event"] != "taken" || first["name"] != "x" {
		t.Errorf("how it stands: %v", first)
	}
	env.start("waiting", "pawl", "run", "-q", "--events", env.path("waiting"), "x", "--", "sh", "-c", "echo 2 >second; until [ -e go2 ]; do sleep 0.02; done")
	second := next()
	if second["event"] != "queued" || second["token"] != nil {
		t.Errorf("somebody came: %v", second)
	}
	env.release("x")
	seen := map[string]any{}
	for range 2 {
		o := next()
		seen[o["event"].(string)] = o["id"]
	}
	if seen["left"] != first["id"] || seen["taken"] != second["id"] {
		t.Errorf("a handover: %v", seen)
	}
	env.write("go2", "")
	if o := next(); o["event"] != "left" {
		t.Errorf("the end: %v", o)
	}
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, watch.Wait()); code != 0 {
		t.Errorf("watch, interrupted, ended with %d", code)
	}
}

func TestWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("a")
	watch := env.start("line", "sh", "-c", `(pawl watch; echo >ended) | head -n 1 >line`)
	env.release("a") // writing the next change fails, because nobody reads
	env.await("ended")
	if err := watch.Wait(); err != nil {
		t.Error(err)
	}
	if line := env.read("line"); !regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  taken   a  \S+@\S+ pid \d+ sh\n$`).MatchString(line) {
		t.Errorf("watch said %q", line)
	}
}
