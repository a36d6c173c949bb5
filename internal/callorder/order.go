package callorder

import "slices"

// Up returns the calls that go from a file to one that stands before it in order.
func (f Folder) Up(order []string) (up []Call) {
	for _, c := range f.Calls {
		if slices.Index(order, c.To) < slices.Index(order, c.From) {
			up = append(up, c)
		}
	}
	return up
}

// Order returns the files in an order in which few calls go up, none where that can
// be had: as long as it helps, it moves single files to the place that is best for them.
func (f Folder) Order() []string {
	order := slices.Clone(f.Files)
	for best := len(f.Up(order)); ; {
		before := best
		for _, file := range f.Files {
			rest := slices.DeleteFunc(slices.Clone(order), func(other string) bool { return other == file })
			for i := range f.Files {
				moved := slices.Insert(slices.Clone(rest), i, file)
				if n := len(f.Up(moved)); n < best {
					order, best = moved, n
				}
			}
		}
		if best == before {
			return order
		}
	}
}
