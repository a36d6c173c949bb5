package driver

// Place is the one admission rule. line holds the live claims of one name in
// order of arrival, a claim that does not queue at its end; the claim in
// question is the one with id.
//
// held says whether it and all claims ahead of it fit. ahead counts the claims
// ahead of it, held ones included. blocker is the ID of the nearest claim ahead
// that can never be held beside it, so that it must leave first and one watch is
// enough; it is empty when the claim is held, and when only the sum of several
// is in the way, in which case any departure may make room. ok is false if id is
// not in the line.
//
// An exclusive claim takes the name whole whatever its Limit, so it is held only
// at the head. Shared claims of one line have one Limit (law 11); Place counts
// with that of the claim in question.
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
	used, room := int64(c.Need), int64(c.Limit) // int64: two writers overflow a 32-bit int
	fits := true
	for i := at - 1; i >= 0; i-- {
		e := line[i].Claim
		used += int64(e.Need)
		if c.Exclusive() || e.Exclusive() || int64(e.Need)+int64(c.Need) > room {
			fits = false
			if blocker == "" {
				blocker = e.ID
			}
		}
	}
	return fits && used <= room, at, blocker, true
}
