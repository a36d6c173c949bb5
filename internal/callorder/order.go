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
// be had.
func (f Folder) Order() []string {
	order := f.topological()
	for best := len(f.Up(order)); best > 0; {
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
		if best == before { // moving a single file does not help any more
			break
		}
	}
	return order
}

// topological takes one file after the other to which no call goes from those that
// remain, or, within a cycle, the fewest.
func (f Folder) topological() (order []string) {
	for left := slices.Clone(f.Files); len(left) > 0; {
		into := func(file string) (n int) {
			for _, c := range f.Calls {
				if c.To == file && slices.Contains(left, c.From) {
					n++
				}
			}
			return n
		}
		next := slices.MinFunc(left, func(a, b string) int { return into(a) - into(b) })
		order = append(order, next)
		left = slices.DeleteFunc(left, func(file string) bool { return file == next })
	}
	return order
}
