package sqlitedoctor

// A disk is what a file system says of itself. All is 0 where it cannot be asked.
type disk struct {
	kind             string // "overlayfs", "tmpfs"; "" for any other
	total, free      uint64 // bytes; free ones that this user may have
	nodes, freeNodes uint64 // inodes; nodes is 0 where they are not limited
	readOnly         bool
}
