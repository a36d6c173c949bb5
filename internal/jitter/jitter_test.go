package jitter_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/jitter"
)

func TestNumbersAreBelowTheBoundAndCanBeReplaced(t *testing.T) {
	for range 1000 {
		if d := jitter.N(3); d < 0 || d > 2 {
			t.Fatalf("%d of at most 2", d)
		}
	}
	restore := jitter.Replace(func(n uint64) uint64 { return n - 1 })
	if d := jitter.N(time.Second); d != time.Second-1 {
		t.Errorf("replaced: %v", d)
	}
	restore()
	seen := map[uint64]bool{}
	for range 100 {
		seen[jitter.Uint64N(1<<60)] = true
	}
	if len(seen) < 2 {
		t.Error("the same number over and over after restore")
	}
}
