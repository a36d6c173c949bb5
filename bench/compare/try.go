package compare

import "context"

// Try does one round with every contender, whatever the load: it shows whether
// every contender works, not how fast.
func Try(ctx context.Context, row Row) Result { return run(ctx, row, 1, noLoad{}) }

// noLoad reports no load.
type noLoad struct{}

func (noLoad) start()         {}
func (noLoad) share() float64 { return 0 }

// UnknownNames returns the names in a row's bounds that are not contenders of it,
// or have no such figure.
func (r Row) UnknownNames() (names []string) {
	known := map[string]bool{"": true}
	for _, c := range r.Who {
		known[c.Name] = true
	}
	for _, b := range r.Bounds {
		if !known[b.Who] || !known[b.Than] || b.Unit >= len(r.Units) {
			names = append(names, b.Who+" and "+b.Than)
		}
	}
	return names
}
