package sim

import "time"

// mix returns a number that depends on all parts, and on nothing else: what happens to a
// message must not depend on the order in which goroutines of one moment run.
func mix(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h = finish(h ^ finish(p+0x9e3779b97f4a7c15))
	}
	return h
}

func finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// text returns a number for a string.
func text(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// A source gives the random numbers of one goroutine.
type source struct{ state uint64 }

func newSource(parts ...uint64) *source { return &source{mix(parts...)} }

func (r *source) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return finish(r.state)
}

// below returns a number from 0 to below n.
func (r *source) below(n int) int { return int(r.next() % uint64(n)) }

// chance is true in percent of 100 cases.
func (r *source) chance(percent int) bool { return r.below(100) < percent }

// between returns a time of at least lo and less than hi, with nanoseconds that no other
// time has: two events of one moment would come in an order that cannot be repeated.
func (r *source) between(lo, hi time.Duration) time.Duration { return between(r.next(), lo, hi) }

func between(n uint64, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(n%uint64(hi-lo))
}
