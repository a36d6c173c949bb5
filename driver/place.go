package driver

// Place is the admission rule. line has the live claims of one name in order of
// arrival, with a claim that does not queue at its end; id is the claim to answer for.
//
// held says whether that claim and all claims ahead of it fit into the limit. ahead is
// the number of claims ahead of it, held ones included. blocker is the ID of the nearest
// claim ahead that can never be held beside it: it has to leave first, so a watch on it
// alone is enough. blocker is empty if the claim is held, and if only the sum of several
// claims is in the way, where any departure may make room. ok is false if id is not in
// the line.
//
// An exclusive claim takes the whole name whatever its Limit, so it is held only
// at the head of the line. Shared claims of one line have one Limit (law 11); Place uses
// that of the claim with id.
func Place(line []Entry, id string) (held bool, ahead int, blocker string, ok bool) {
	at := -1
	for i := range line {
		if line[i].ID == id {
			at = i
			break
		}
	}
	if at < 0 {
		return false, 0, "", false
	}
	c := line[at].Claim
	used, limit := int64(c.Need), int64(c.Limit) // int64: two writers overflow a 32-bit int
	fits := true
	for i := at - 1; i >= 0; i-- {
		e := line[i].Claim
		used += int64(e.Need)
		if c.Exclusive() || e.Exclusive() || int64(e.Need)+int64(c.Need) > limit {
			fits = false
			if blocker == "" {
				blocker = e.ID
			}
		}
	}
	return fits && used <= limit, at, blocker, true
}
