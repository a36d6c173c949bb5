package claimview

import (
	"strings"

	"github.com/pawl-go/pawl/election"
)

// The name prefixes of the locks of recipes.
var (
	Elections = strings.TrimSuffix(ElectionLock("x"), "x")  // of the locks behind elections
	Reserved  = Elections[:strings.Index(Elections, "/")+1] // of the locks of all recipes
)

// ElectionLock returns the name of the lock that the leader holds; empty if the
// election's name is invalid.
func ElectionLock(name string) string { return election.New(nil, name).LockName() }
