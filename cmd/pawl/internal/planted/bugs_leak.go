package planted

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How often bugs happen that would stop everything at once, in calls.
const (
	deafEvery   = 8
	permitEvery = 4
	zombieEvery = 10
)

// leakBugs keep a name from those that wait for it.
var leakBugs = []bug{
	{
		Bug: Bug{"lost wake-up",
			"A holder leaves, the first in line is granted, but nobody tells it, and its beats answer that it waits.", stuck},
		plant: plantDeaf,
	},
	{
		Bug: Bug{"try leaves a claim in line",
			"A try that is refused stays in line, is granted later, and lives as long as its session.", stuckOrRefused},
		plant: func(*store) hooks {
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				if c.Queue {
					return s.memEnter(c)
				}
				c.Queue = true
				st, err := s.memEnter(c)
				if err == nil && !st.Held {
					s.leak(c)
					st.Valid = 0
				}
				return st, err
			}}
		},
	},
	{
		Bug: Bug{"cancelled wait keeps its place",
			"A waiter gives up, its Leave is answered, but the place stays in line and is granted to nobody.", stuck},
		plant: func(t *store) hooks {
			return hooks{leave: func(s *session, c driver.Claim) error {
				if e, ok := t.find(c); ok && !e.Held {
					s.leak(c)
					return nil
				}
				return s.memLeave(c)
			}}
		},
	},
	{
		Bug: Bug{"permits never returned",
			"Of the permits of a semaphore that are given back, every fourth stays taken as long as its session lives.", stuck},
		plant: func(t *store) hooks {
			n := 0
			return hooks{leave: func(s *session, c driver.Claim) error {
				if e, ok := t.find(c); ok && e.Held && isCounted(c) {
					if n++; n%permitEvery == 0 {
						s.leak(c)
						return nil
					}
				}
				return s.memLeave(c)
			}}
		},
	},
	{
		Bug: Bug{"claim does not expire",
			"The store keeps the claims of a client that was killed for ever.", stuck},
		plant: func(*store) hooks { return hooks{keep: func(ttl time.Duration) time.Duration { return 1000 * ttl }} },
	},
	{
		Bug: Bug{"waiter prolongs other clients' claims",
			"A waiter that looks at the line, or beats, prolongs all claims in it, with that of the holder that was killed.", stuck},
		plant: func(t *store) hooks {
			return hooks{
				look: func(s *session, c driver.Claim) driver.Standing {
					t.prolong(t.entries(c.Name))
					return s.look(c)
				},
				beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
					for _, c := range live {
						t.prolong(t.entries(c.Name))
					}
					return s.memBeat(live, out)
				},
			}
		},
	},
	{
		Bug: Bug{"grant to a client that is gone",
			"A client is killed while it waits; the store does not end places in line, grants to it when its turn comes, and waits for its Leave.", stuck},
		plant: plantDeadWaiter,
	},
	{
		Bug: Bug{"late Enter taken after the Leave",
			"An Enter arrives twice, the second time after the claim's Leave, and makes a claim that nobody knows of and that lives as long as its session.", stuckOrRefused},
		plant: func(t *store) hooks {
			n := 0
			late := map[string]driver.Claim{} // by session
			return hooks{
				leave: func(s *session, c driver.Claim) error {
					if n++; n%zombieEvery == 0 {
						late[s.id] = c
					}
					return s.memLeave(c)
				},
				enter: func(s *session, c driver.Claim) (driver.Standing, error) {
					if z, ok := late[s.id]; ok {
						delete(late, s.id)
						z.Queue = true
						if _, err := s.memEnter(z); err == nil {
							s.leak(z)
						}
					}
					return s.memEnter(c)
				},
			}
		},
	},
	{
		Bug: Bug{"beat revives a released claim",
			"A beat is on its way when the claim is given back; it arrives after the Leave and puts the claim into the line again.", stuckOrRefused},
		plant: func(*store) hooks {
			left := map[string]driver.Claim{} // by session: the last claim that left
			return hooks{
				leave: func(s *session, c driver.Claim) error {
					left[s.id] = c
					return s.memLeave(c)
				},
				beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
					if c, ok := left[s.id]; ok {
						delete(left, s.id)
						c.Queue = true
						if _, err := s.memEnter(c); err == nil {
							s.leak(c)
						}
					}
					return s.memBeat(live, out)
				},
			}
		},
	},
}

// plantDeaf hides grants from their clients.
func plantDeaf(t *store) hooks {
	n := 0
	deaf := map[string]bool{} // by ID
	return hooks{
		leave: func(s *session, c driver.Claim) error {
			waiting := t.waiting(c.Name)
			err := s.memLeave(c)
			for _, e := range waiting {
				if now, ok := t.find(e.Claim); ok && now.Held {
					n++
					deaf[e.ID] = n%deafEvery == 0
				}
			}
			return err
		},
		look: func(s *session, c driver.Claim) driver.Standing {
			if deaf[c.ID] {
				return driver.Standing{}
			}
			return s.look(c)
		},
		beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
			err := s.memBeat(live, out)
			for i, c := range live {
				if deaf[c.ID] && out[i].Held {
					out[i].Held, out[i].Token = false, 0
				}
			}
			return err
		},
	}
}

// plantDeadWaiter prolongs every claim that has waited, whenever anybody looks at its line.
func plantDeadWaiter(t *store) hooks {
	waited := map[claimTry]bool{}
	prolong := func(name string) {
		t.prolong(slices.DeleteFunc(t.entries(name), func(e driver.Entry) bool { return !waited[claimTry{e.ID, e.Try}] }))
	}
	return hooks{
		enter: func(s *session, c driver.Claim) (driver.Standing, error) {
			prolong(c.Name)
			st, err := s.memEnter(c)
			if err == nil && !st.Held && c.Queue {
				waited[claimTry{c.ID, c.Try}] = true
			}
			return st, err
		},
		look: func(s *session, c driver.Claim) driver.Standing {
			prolong(c.Name)
			return s.look(c)
		},
	}
}
