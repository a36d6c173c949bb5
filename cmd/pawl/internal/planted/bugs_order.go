package planted

import (
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// orderBugs break the order of the line, or refuse what is free.
var orderBugs = []bug{
	{
		Bug: Bug{"wake-up of the wrong claim",
			"When a holder leaves, the second in line is granted, and the first goes to the end.", overtaken},
		plant: func(t *store) hooks {
			return hooks{look: (*session).look, leave: func(s *session, c driver.Claim) error {
				if w := t.waiting(c.Name); len(w) > 1 && w[0].ID != c.ID {
					t.toBack(w[0])
				}
				return s.memLeave(c)
			}}
		},
	},
	{
		Bug: Bug{"newcomer overtakes the line",
			"An Enter that has to wait is put before all that wait already.", overtaken},
		plant: plantOvertaking(0),
	},
	{
		Bug: Bug{"newcomer goes first where the line is long",
			"An Enter that finds two or more waiting is put before them.", overtaken},
		plant: plantOvertaking(2),
	},
	{
		Bug: Bug{"reader overtakes a waiting writer",
			"Readers hold, a writer waits, and readers that come later are granted beside the first, over and over.", overtaken},
		plant: func(t *store) hooks {
			return hooks{look: (*session).look, enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				st, err := s.memEnter(c)
				held := t.held(c.Name)
				if err != nil || st.Held || !isReader(c) || len(held) == 0 || held[0].Exclusive() {
					return st, err
				}
				for _, e := range t.waiting(c.Name) {
					if e.Exclusive() {
						t.toBack(e)
					}
				}
				return s.stand(c), nil
			}}
		},
	},
	{
		Bug: Bug{"try refused on a free name",
			"Every second try is refused without a look at the line.", refused},
		plant: func(*store) hooks {
			n := 0
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				if n++; !c.Queue && n%2 == 0 {
					return driver.Standing{Ahead: -1}, nil
				}
				return s.memEnter(c)
			}}
		},
	},
}

// plantOvertaking puts a new claim before all others that wait, if there are more than some.
func plantOvertaking(some int) func(t *store) hooks {
	return func(t *store) hooks {
		return hooks{look: (*session).look, enter: func(s *session, c driver.Claim) (driver.Standing, error) {
			_, known := t.find(c)
			st, err := s.memEnter(c)
			if err != nil || known || st.Held || !c.Queue {
				return st, err
			}
			others := slices.DeleteFunc(t.waiting(c.Name), func(e driver.Entry) bool { return e.ID == c.ID })
			if len(others) >= some {
				t.toFront(c)
			}
			return s.stand(c), nil
		}}
	}
}
