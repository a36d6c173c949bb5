package claimview

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// noteForm says what a note in the usual format is.
var noteForm = regexp.MustCompile(`(?s)^(\S+@\S+) pid (\d+) (\S+)(?: \((.*)\))?$`)

func byForm(note string) Holder {
	m := noteForm.FindStringSubmatch(note)
	if m == nil {
		return Holder{Reason: note}
	}
	pid, _ := strconv.Atoi(m[2])
	return Holder{m[1], pid, m[3], m[4]}
}

func TestNotesAreParsedByTheirForm(t *testing.T) {
	parts := []string{"", "ana", "@", "h", " ", " pid ", "7", "07x", "cmd", " (", "why", ")", "\n", "\xff", "é"}
	n := 0
	var try func(note string, depth int)
	try = func(note string, depth int) {
		n++
		if got, want := ParseNote(note), byForm(note); got != want {
			t.Fatalf("%q is %+v, want %+v", note, got, want)
		}
		if depth > 0 {
			for _, p := range parts[1:] {
				try(note+p, depth-1)
			}
		}
	}
	try("", 4)
	for _, begin := range []string{"a@h pid 7 ", "a@h pid 7 cmd", "@@h pid ", "a@ pid 7 ", "@h pid 7 c", "a@@ pid 7 c", "a@h pid 99999999999999999999 c"} {
		try(begin, 4)
	}
	t.Logf("%d notes", n)
}

func TestParsingALongNoteAllocatesNothing(t *testing.T) {
	long := strings.Repeat("n", 1000)
	allocs := testing.AllocsPerRun(10, func() { ParseNote(long); ParseNote("a@h pid 7 cmd (" + long + ")") })
	if allocs > 1 { // of the concatenation
		t.Errorf("%v allocations", allocs)
	}
}

func FuzzParseNote(f *testing.F) {
	f.Add("ana@ci-7 pid 4121 deploy.sh (release 4.2)")
	f.Fuzz(func(t *testing.T, note string) {
		if got, want := ParseNote(note), byForm(note); got != want {
			t.Errorf("%q is %+v, want %+v", note, got, want)
		}
	})
}
