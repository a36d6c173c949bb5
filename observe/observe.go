// Package observe has what an exporter of metrics needs beside pawl's events: the age of
// the oldest wait, which elections this process leads, and metrics by class of names. The
// modules observe/prom and observe/otel are built on it, and so can be exporters elsewhere.
//
// Everything here fits a [pawl.DirectObserver]: it does not block, does not call the client, and
// once it is in use it does not allocate.
package observe

import (
	"fmt"
	"strings"

	"github.com/pawl-go/pawl"
)

// The upper bounds of histogram buckets, in seconds. They are part of the names that
// dashboards rely on, so every exporter has the same.
var (
	// AcquireBuckets go from a lock in memory (10 µs) over a store's round trip (around
	// 1 ms) to a wait for another's work (minutes). Two or three per decade tell a slow
	// store from a queue, which is what the metric is asked for.
	AcquireBuckets = []float64{
		10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3,
		0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
	}
	// HoldBuckets go from 100 µs to a day: how long work takes is known to its author, and
	// the order of magnitude is enough to see a hold that does not end.
	HoldBuckets = []float64{100e-6, 1e-3, 10e-3, 50e-3, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	// RenewBuckets go from 100 µs to 10 s, the default TTL: a renewal that takes longer
	// than a third of its TTL delays the next one, and one that takes the TTL is a loss.
	RenewBuckets = []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

// Causes are the causes of a loss. An exporter shows each with 0 from the start, because a
// counter that appears with its first loss has no increase to alert on.
var Causes = []pawl.Cause{pawl.NotRenewed, pawl.SessionEnded, pawl.Broken, pawl.MaxHold, pawl.FixedTTL}

// Label returns a kind, mode or cause as the value of a label, such as "handed_over".
func Label(word fmt.Stringer) string {
	return strings.ToLower(strings.ReplaceAll(word.String(), " ", "_"))
}
