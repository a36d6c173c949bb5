package quorum

import "github.com/pawl-go/pawl/driver"

// ID returns the ID by which the nodes know the quorum.
func (e *Engine) ID() string { return e.set.ID }

// Order returns the nodes in the order in which a session asks them for a name.
func Order(s driver.Session, name string) []int {
	first, rest := s.(*session).split(name)
	return append(first, rest...)
}
