package driverkit_test

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A kvLine is the claims of one name in order of arrival, as they are stored.
type kvLine []kvClaim

type kvClaim struct {
	driver.Entry           // as it was when the line was written
	Token        uint64    // the version of the write that entered it; 0: this is that version
	From, Until  time.Time // by the store's clock
}

// parseLine reads a line that was stored under a version. A token made before the write
// could be lower than one that was held since; the write's own version cannot.
func parseLine(text string, version uint64) (l kvLine, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &l)
	for i := range l {
		if c := &l[i]; c.Token == 0 {
			c.Token = version
		}
	}
	return l, err
}

// settle ends what has expired and grants what fits.
func (l *kvLine) settle(now time.Time) {
	*l = slices.DeleteFunc(*l, func(c kvClaim) bool { return !c.Until.After(now) })
	for i := range *l {
		c := &(*l)[i]
		if held, _, _, _ := driver.Place(l.entries(now), c.ID); held && !c.Held {
			c.Held, c.From = true, now
		}
	}
}

func (l *kvLine) entries(now time.Time) []driver.Entry {
	all := make([]driver.Entry, len(*l))
	for i, c := range *l {
		all[i] = c.Entry
		all[i].Since, all[i].Left = now.Sub(c.From), c.Until.Sub(now)
		if c.Held {
			all[i].Fence = c.Token
		}
	}
	return all
}

func (l *kvLine) find(id string) int {
	return slices.IndexFunc(*l, func(c kvClaim) bool { return c.ID == id })
}

func (l *kvLine) remove(i int) { *l = slices.Delete(*l, i, i+1) }

func (l *kvLine) standing(i int, now time.Time) driver.Standing {
	all := l.entries(now)
	st := driver.Standing{Held: all[i].Held, Token: all[i].Fence, Ahead: i}
	if !st.Held {
		st.Holder, st.Pause = &all[0], all[0].Left
		for _, ahead := range all[1:i] {
			st.Pause = min(st.Pause, ahead.Left)
		}
	}
	return st
}
