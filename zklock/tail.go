package zklock

import "github.com/go-zookeeper/zk"

// A long line is one in which a claim had at least two ahead of it. The next claim
// that comes there will have to read the line anyhow, and a plain create costs the
// servers less than a Multi. So as many enter by one as there were too many; every
// read of the line counts them again.
type longLine struct {
	name string
	left int // how many may enter by a create
}

// countedLocked takes in how many claims there are in a line, the newest included.
func (s *session) countedLocked(name string, children int32) {
	if children > 2 {
		s.long = longLine{name, int(children) - 2}
	} else if s.long.name == name {
		s.long = longLine{}
	}
}

// joinsTailLocked reports whether the claims may enter by a create: one of them, in a
// long line.
func (s *session) joinsTailLocked(as []*arrival) bool {
	a := as[0]
	if s.long.left == 0 || len(as) > 1 || a.Name != s.long.name || !a.Queue || !a.Exclusive() || len(a.lower) > 0 {
		return false
	}
	s.long.left--
	return true
}

// readCreate reads the answer to a create as that to a Multi which tells nothing of
// the container but when it was made longer.
func readCreate(body []byte) ([]zk.MultiResponse, error) {
	r := reply{rest: body}
	path, made := string(r.text()), r.stat()
	return []zk.MultiResponse{{String: path}, {Stat: &zk.Stat{Mzxid: made.Czxid, Mtime: made.Ctime}}}, r.err()
}
