package drivertest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// How long a goroutine may need to end that has nothing left to do: one of ours,
// and one of a store's client, which closes connections behind its user's back and
// gives a server that does not answer some seconds for it.
var (
	ourGrace    = 2 * time.Second
	clientGrace = 20 * time.Second
)

// How often it is asked whether all have ended: not at once, since then some mostly
// have not, and then the more rarely, since the answer has the stacks of the whole
// process.
const (
	firstCheck    = 10 * time.Millisecond
	maxCheckPause = 50 * time.Millisecond
)

// labelKey marks the goroutines of one case.
const labelKey = "drivertest"

// goroutines returns the stacks of the goroutines that carry label, but for
// those that run tests, and how many there are.
func goroutines(label string, stays func(stack string) bool) (stacks []string, n int) {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a Buffer takes everything
	mark := fmt.Sprintf("%q:%q", labelKey, label)
	_, body, _ := strings.Cut(all.String(), "\n") // the first line is the total of all goroutines
	for stack := range strings.SplitSeq(body, "\n\n") {
		if !strings.Contains(stack, mark) || strings.Contains(stack, "testing.tRunner") {
			continue
		}
		if stays != nil && stays(stack) {
			continue
		}
		var same int
		if _, err := fmt.Sscanf(stack, "%d @", &same); err != nil {
			same = 1
		}
		stacks, n = append(stacks, stack), n+same
	}
	return stacks, n
}

// checkGoroutines fails t if a goroutine of the case is still there after the
// engine was closed. One that has been told to end may need a moment for it.
func checkGoroutines(t *testing.T, label string, stays func(string) bool) {
	t.Helper()
	start := time.Now()
	for pause := firstCheck; ; pause = min(2*pause, maxCheckPause) {
		time.Sleep(pause)
		stacks, n := goroutines(label, stays)
		if n == 0 {
			return
		}
		if passed := time.Since(start); passed > clientGrace || passed > ourGrace && slices.ContainsFunc(stacks, ours) {
			t.Errorf("%d goroutines outlive the engine's Close:\n%s\nlaw 9: %s", n, strings.Join(stacks, "\n\n"), laws[9])
			return
		}
	}
}

// ours reports whether code of this module is on a stack.
func ours(stack string) bool { return strings.Contains(stack, "github.com/pawl-go/pawl") }
