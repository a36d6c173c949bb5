//go:build !race

package redlock_test

import (
	"testing"
	"time"
)

// Rivals that take nodes from each other leave a name free while all of them want it.
func TestNoRaceTwentyRivalsGetAThirdOfTheHoldsOfOneClient(t *testing.T) {
	f := newCluster(t, 5, shortMaxTTL)
	all := f.rivals(t, 20, 0)
	compete(t, all, "name", time.Second) // connects
	one := compete(t, all[:1], "name", 2*time.Second)
	twenty := compete(t, all, "name", 2*time.Second)
	t.Logf("%d holds of one client, %d of twenty", one, twenty)
	if twenty < one*3/10 {
		t.Errorf("twenty rivals had %d holds in the time in which one client had %d", twenty, one)
	}
}
