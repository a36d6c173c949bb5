//go:build !race

package sqllock_test

import "testing"

// The race detector makes these several times slower, so that they wait for
// processors and not for each other.

func TestNoRaceSixteenClientsNeverOverlapDeadlockOrOvertake(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) { sixteen(t, r, 20) })
}

func TestNoRaceAZombieNeverCommits(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) { zombies(t, r, 100) })
}
