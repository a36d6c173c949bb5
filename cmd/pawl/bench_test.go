//go:build linux

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// benchFields are the fields of one result in bench --json.
var benchFields = map[string]func(any) bool{
	"kind": isText(`^(alone|apart|together|handoff)$`), "store": isText(`^sqlite://`),
	"goroutines": isNumber, "clients": isNumber, "seconds": isNumber, "count": isNumber, "per_second": isNumber,
	"p50_us": isNumber, "p90_us": isNumber, "p99_us": isNumber, "max_us": isNumber, "fewest": isNumber, "most": isNumber,
	"histogram": func(v any) bool { _, ok := v.([]any); return ok },
}

func TestBenchJSONHasTheDocumentedFields(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	p := env.run("pawl", "bench", "--json", "--for", "30ms", "-g", "3")
	var all []object
	if err := json.Unmarshal([]byte(p.out), &all); err != nil || p.code != 0 || p.err != "" || len(all) != 4 {
		t.Fatalf("code %d, %v\n%s%s", p.code, err, p.out, p.err)
	}
	for _, o := range all {
		for key, value := range o {
			if is := benchFields[key]; is == nil || !is(value) {
				t.Errorf("%v: field %q is %v", o["kind"], key, value)
			}
		}
		for key := range benchFields {
			if _, ok := o[key]; !ok && !(key == "per_second" && o["kind"] == "handoff") {
				t.Errorf("%v: field %q is missing", o["kind"], key)
			}
		}
		sum := 0.
		for _, bar := range o["histogram"].([]any) {
			b := bar.(map[string]any)
			sum += b["count"].(float64)
			if b["from_us"].(float64) >= b["to_us"].(float64) {
				t.Errorf("%v: bar %v", o["kind"], b)
			}
		}
		if sum != o["count"] || sum == 0 {
			t.Errorf("%v: the bars count %v of %v", o["kind"], sum, o["count"])
		}
	}
}

func TestBenchShowsItsProgressOnATerminalAndClearsIt(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(70, "pawl", "bench", "--for", "30ms", "-g", "3")
	x.ends(0)
	text := x.shown()
	for n, kind := range []string{"alone", "apart", "together", "handoff"} {
		re := regexp.MustCompile(`\r\x1b\[K\[#*\.*\] ` + kind + ` +` + string(rune('1'+n)) + ` of 4, [^\r]+ to go\r`)
		if !re.MatchString(text) {
			t.Errorf("no progress of %s: %q", kind, text)
		}
		if !strings.Contains(text, "\r\x1b[K\r\n"+kind+": ") {
			t.Errorf("the line before %s was not cleared: %q", kind, text)
		}
	}
	if !strings.Contains(text, "|\x1b[32m#") {
		t.Errorf("no colour: %q", text)
	}
}

func TestBenchFitsANarrowTerminalWithoutColour(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("NO_COLOR=1")
	for _, width := range []uint16{24, 40} {
		x := env.terminal(width, "pawl", "bench", "--for", "20ms", "-g", "3", "together", "handoff")
		x.ends(0)
		text := x.shown()
		if strings.Contains(strings.ReplaceAll(text, "\r\x1b[K", ""), "\x1b") {
			t.Errorf("colour: %q", text)
		}
		_, text, _ = strings.Cut(text, "\r\n") // the line with the store's name is not shortened
		for _, line := range regexp.MustCompile(`\r\n|\r\x1b\[K`).Split(text, -1) {
			if columnsOf(line) > int(width) {
				t.Errorf("%d columns of %d: %q", columnsOf(line), width, line)
			}
		}
	}
}

func TestAnInterruptedBenchLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"alone", "apart", "together", "handoff"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
				x := env.terminal(80, "pawl", "bench", "--for", "1h", "-g", "8", kind)
				// bench holds a lock once one of its names is listed.
				if !eventually(func() bool { return strings.Contains(env.run("pawl", "ls").out, "pawl-bench/") }) {
					t.Fatalf("nothing was held: %q", x.shown())
				}
				if sig == syscall.SIGINT {
					x.types(ctrlC)
				} else if err := x.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				x.ends(128 + int(sig))
				if list := env.run("pawl", "ls", "--json"); strings.TrimSpace(list.out) != "[]" {
					t.Errorf("left behind: %s", list.out)
				}
				if text := x.shown(); !strings.HasSuffix(text, "\r\x1b[K") {
					t.Errorf("the line was not cleared: %q", text)
				}
			}
		})
	}
}
