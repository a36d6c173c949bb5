//go:build !linux && !darwin

package sqlitedoctor

func statDisk(string) (disk, error) { return disk{}, nil }
