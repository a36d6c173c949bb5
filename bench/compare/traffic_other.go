//go:build !linux

package contest

// traffic is not known here.
func traffic(...string) map[int]int { return nil }
