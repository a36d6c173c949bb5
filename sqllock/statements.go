package sqllock

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

// The statements, one a file; each says at its top what it does, what it takes
// and what it gives back.
//
//go:embed sql/*.sql
var files embed.FS

// statements are the shared statements in the words of one dialect. The order
// of fields follows their use: the fast path, the queueing flight, the rest.
type statements struct {
	enter, end, endFree *Query
	release             *Query // end as a flight of its own
	pass                *Query // a settle in one statement, where there is one
	stand               *Query // the queueing flight in one statement, where there is one
	again               *Query // enter where the row is known to be there, if that is less work

	head, lock, expire, prune, drop, tally *Query
	prolong, join, raise                   *Query
	front, promote, vacate, admit, count   *Query
	standing, veto                         *Query

	beatX, beat, find                *Query
	beatsX, beats                    *Query // beat_x and beat for many in one statement, where there is one
	rests                            *Query // when lines need to be looked at, where it is to be had
	beatWaitX, beatWait              *Query // beats that wait for the row, where the others pass by one that is taken
	still, departed, peek, waits     *Query
	rivals, occupants, haunts, stuck *Query
	named                            *Query
	buryX, bury, evictX, evict       *Query
	list, line                       *Query
	load, version, store, erase      *Query
	create                           *Query // store where none is expected
	idle, alone, mark, sweep         *Query
	stale, forget                    *Query
	guardX, guard                    *Query
	guardSeenX, guardSeen            *Query
	guardMarkX                       *Query // makes old views known, where it is needed
	onceSeat, onceLock, onceErase    *Query
	onceFind, onceBegin, onceStands  *Query
	onceEnd                          *Query
}

// sameAs are statements that only some dialects tell from others.
var sameAs = map[string]string{"release": "end", "create": "store"}

// plainly are statements that are the shared ones where a dialect has others of
// that name for another purpose.
var plainly = map[string]string{"beat_wait": "beat", "beat_wait_x": "beat_x"}

func compile(d *Dialect) (*statements, error) {
	var s statements
	for i, it := range []struct {
		name string
		into **Query
	}{
		{"enter", &s.enter}, {"end", &s.end}, {"end_free", &s.endFree}, {"release", &s.release}, {"pass", &s.pass}, {"stand", &s.stand}, {"again", &s.again},
		{"head", &s.head}, {"lock", &s.lock}, {"expire", &s.expire}, {"prune", &s.prune},
		{"drop", &s.drop}, {"tally", &s.tally}, {"prolong", &s.prolong}, {"join", &s.join},
		{"raise", &s.raise}, {"front", &s.front}, {"promote", &s.promote}, {"vacate", &s.vacate}, {"admit", &s.admit},
		{"count", &s.count}, {"standing", &s.standing}, {"veto", &s.veto},
		{"beat_x", &s.beatX}, {"beat", &s.beat}, {"find", &s.find},
		{"beats_x", &s.beatsX}, {"beats", &s.beats}, {"rests", &s.rests}, {"beat_wait_x", &s.beatWaitX}, {"beat_wait", &s.beatWait},
		{"still", &s.still}, {"departed", &s.departed}, {"peek", &s.peek}, {"waits", &s.waits},
		{"rivals", &s.rivals}, {"occupants", &s.occupants}, {"haunts", &s.haunts}, {"stuck", &s.stuck}, {"named", &s.named},
		{"bury_x", &s.buryX}, {"bury", &s.bury}, {"evict_x", &s.evictX}, {"evict", &s.evict}, {"list", &s.list}, {"line", &s.line},
		{"load", &s.load}, {"version", &s.version}, {"store", &s.store}, {"erase", &s.erase}, {"create", &s.create},
		{"idle", &s.idle}, {"alone", &s.alone}, {"mark", &s.mark}, {"sweep", &s.sweep}, {"stale", &s.stale}, {"forget", &s.forget},
		{"guard_x", &s.guardX}, {"guard", &s.guard}, {"guard_seen_x", &s.guardSeenX}, {"guard_seen", &s.guardSeen}, {"guard_mark_x", &s.guardMarkX},
		{"once_seat", &s.onceSeat}, {"once_lock", &s.onceLock}, {"once_find", &s.onceFind}, {"once_begin", &s.onceBegin},
		{"once_stands", &s.onceStands}, {"once_end", &s.onceEnd}, {"once_erase", &s.onceErase},
	} {
		file := it.name
		text, replaced := d.Statements[file]
		if as, same := sameAs[file]; same && !replaced {
			file = as
			text, replaced = d.Statements[file]
		}
		if !replaced {
			if as, same := plainly[file]; same {
				file = as
			}
			b, err := files.ReadFile("sql/" + file + ".sql")
			if err != nil {
				return nil, fmt.Errorf("sqllock: statement %s: %w", it.name, err)
			}
			text = string(b)
		}
		q, err := translate(d, text)
		if err != nil {
			return nil, fmt.Errorf("sqllock: statement %s: %w", it.name, err)
		}
		q.Name, q.Index = it.name, i
		*it.into = q
	}
	return &s, nil
}

// translate expands the macros of a statement and names its parameters as the
// dialect wants them. An empty text makes a query without one, left out of flights.
func translate(d *Dialect, text string) (*Query, error) {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	text, err := expand(d, strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	q := &Query{}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, ":")
		out.WriteString(before)
		if !found {
			break
		}
		end := 0
		for end < len(rest) && rest[end] >= 'a' && rest[end] <= 'z' {
			end++
		}
		p, known := paramNames[rest[:end]]
		if !known { // also "::", a cast
			return nil, fmt.Errorf("unknown parameter %q", ":"+rest[:end])
		}
		out.WriteString(d.Mark)
		if n := q.bind(p, d.Numbered); d.Numbered {
			out.WriteString(strconv.Itoa(n))
		}
		if d.Cast != nil {
			out.WriteString(d.Cast(p))
		}
		text = rest[end:]
	}
	q.Text = out.String()
	return q, nil
}

// expand replaces the macros of a statement.
func expand(d *Dialect, text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, _ := strings.Cut(rest, "}")
		value, known := d.Macros[name]
		if !known {
			return "", fmt.Errorf("unknown macro at %.20q", text[len(before):])
		}
		out.WriteString(value)
		text = after
	}
}

// bind returns the number of p among the parameters, from 1.
func (q *Query) bind(p Param, again bool) int {
	for i, have := range q.Params {
		if again && have == p {
			return i + 1
		}
	}
	q.Params = append(q.Params, p)
	return len(q.Params)
}
