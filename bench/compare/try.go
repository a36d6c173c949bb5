package contest

import "context"

// Try lets everybody do one round, whatever else the machine does: what comes of it
// are no figures, but whether everybody gets through.
func Try(ctx context.Context, row Row) Result { return run(ctx, row, 1, deserted{}) }

// deserted is a neighbourhood without neighbours.
type deserted struct{}

func (deserted) start()         {}
func (deserted) share() float64 { return 0 }

// Strangers returns the names in a row's bounds that take no part in it, or have no
// such figure.
func (r Row) Strangers() (names []string) {
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
