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

// How long a goroutine without work may take to end: one that runs this module's
// code, and one of a store's client. Clients close connections asynchronously and
// wait some seconds for a server that does not answer.
var (
	ourGrace    = 2 * time.Second
	clientGrace = 20 * time.Second
)

// How often to count the goroutines that are left. The pauses grow because each
// count dumps the stacks of the whole process.
const (
	firstCheck    = 10 * time.Millisecond
	maxCheckPause = 50 * time.Millisecond
)

// labelKey is the pprof label of a case's goroutines.
const labelKey = "drivertest"

// goroutines returns the number and the stacks of the goroutines that carry label,
// except those that run tests.
func goroutines(label string, stays func(stack string) bool) (stacks []string, n int) {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // writing to a Buffer never fails
	mark := fmt.Sprintf("%q:%q", labelKey, label)
	_, body, _ := strings.Cut(all.String(), "\n") // the first line is the total of the process
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

// checkGoroutines fails t if a goroutine of the case outlives the engine's Close by
// more than the grace period.
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

// ours reports whether the stack contains code of this module.
func ours(stack string) bool { return strings.Contains(stack, "github.com/pawl-go/pawl") }
