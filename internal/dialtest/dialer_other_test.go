//go:build !linux

package dialtest_test

import "testing"

// connectionsTo returns nothing where a process cannot list its connections.
func connectionsTo(*testing.T, []int) map[string]int { return nil }
