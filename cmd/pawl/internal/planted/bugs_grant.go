package planted

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// raceWindow is how far apart two Enters are that both find a name free.
const raceWindow = 20 * time.Millisecond

// forgetEvery is after how many Enters a store loses its data.
const forgetEvery = 50

// grantBugs grant what is not free.
var grantBugs = []bug{
	{
		Bug: Bug{"grant twice after a lost reply",
			"A claim waits in line, the reply to its Enter is lost, and the repeated Enter finds the claim in the store and takes that for a grant.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				if e, ok := t.find(c); ok && !e.Held {
					return s.forged(), nil
				}
				return s.memEnter(c)
			}}
		},
	},
	{
		Bug: Bug{"holder known by a part of its ID",
			"A claim whose ID begins with the same character as the holder's is taken for the holder's own, and granted beside it.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				for _, e := range t.held(c.Name) {
					if e.ID != c.ID && e.ID[:1] == c.ID[:1] && (c.Exclusive() || e.Exclusive()) {
						return s.forged(), nil
					}
				}
				return s.memEnter(c)
			}}
		},
	},
	{
		Bug: Bug{"holder known by its session",
			"A second claim of the session that holds the name is granted at once, as if it were the same claim entering again.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				for _, e := range t.held(c.Name) {
					if e.ID != c.ID && e.Session == s.id && (c.Exclusive() || e.Exclusive()) {
						return s.forged(), nil
					}
				}
				return s.memEnter(c)
			}}
		},
	},
	{
		Bug: Bug{"check, then write",
			"Two Enters that come at about the same time both find the name free; the second write replaces the first, and both are granted.", twoHolders},
		plant: plantRace,
	},
	{
		Bug: Bug{"wake-up taken for a grant",
			"When a holder leaves, the first two in line are woken, and the second does not look whether its turn has come.", twoHolders},
		plant: plantDoubleWake,
	},
	{
		Bug: Bug{"writer beside a reader",
			"A writer counts as one unit less than the whole name, so it is granted while one reader holds.", twoHolders},
		plant: plantChangedClaim(func(c *driver.Claim) {
			if c.Need == driver.All {
				c.Need--
			}
		}),
	},
	{
		Bug: Bug{"one permit too many",
			"The limit of a semaphore is compared with 'less or equal', so one more permit is granted than there are.", twoHolders},
		plant: plantChangedClaim(func(c *driver.Claim) {
			if isCounted(*c) {
				c.Limit++
			}
		}),
	},
	{
		Bug: Bug{"waiter without a claim is granted",
			"A waiter's claim ends with its connection; on the next one the waiter watches only the claims that were ahead of it, and when those have gone it is told that it holds.", twoHolders},
		plant: plantGhost,
	},
	{
		Bug: Bug{"store loses its data",
			"From time to time the store forgets all claims and its counter of tokens, and the next Enter is granted beside the holder.", anyGrant},
		plant: func(t *store) hooks {
			n := 0
			return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
				if n++; n%forgetEvery == 0 {
					t.Forget()
				}
				return s.memEnter(c)
			}}
		},
	},
}

// plantChangedClaim changes what claims ask for.
func plantChangedClaim(change func(c *driver.Claim)) func(t *store) hooks {
	return func(*store) hooks {
		return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
			change(&c)
			return s.memEnter(c)
		}}
	}
}

func plantRace(t *store) hooks {
	taken := map[string]time.Time{} // when a name was found free
	return hooks{enter: func(s *session, c driver.Claim) (driver.Standing, error) {
		line, now := t.entries(c.Name), time.Now()
		switch {
		case len(line) == 0:
			taken[c.Name] = now
		case len(line) == 1 && line[0].Held && line[0].ID != c.ID && line[0].Session != s.id &&
			(c.Exclusive() || line[0].Exclusive()) && now.Sub(taken[c.Name]) < raceWindow:
			t.end(line[0])
		}
		return s.memEnter(c)
	}}
}

func plantDoubleWake(t *store) hooks {
	woken := map[string]bool{} // by ID
	return hooks{
		leave: func(s *session, c driver.Claim) error {
			if e, ok := t.find(c); ok && e.Held && e.Exclusive() {
				if w := t.waiting(c.Name); len(w) > 1 && (w[0].Exclusive() || w[1].Exclusive()) {
					woken[w[1].ID] = true
				}
			}
			return s.memLeave(c)
		},
		look: func(s *session, c driver.Claim) driver.Standing {
			if woken[c.ID] {
				delete(woken, c.ID)
				if st := s.look(c); !st.Held && !st.Gone {
					return s.forged()
				}
			}
			return s.look(c)
		},
	}
}

// plantGhost has waiters watch the claims ahead of them, and not their own.
func plantGhost(t *store) hooks {
	ahead := map[string][]driver.Claim{} // by ID, of those that were entered and have not left
	ghosts := map[string]uint64{}        // tokens of grants to claims that are not there, by ID
	return hooks{
		disconnected: func(s *session) {
			for e := range t.everything() {
				if e.Session == s.id && !e.Held {
					t.end(e)
				}
			}
		},
		enter: func(s *session, c driver.Claim) (driver.Standing, error) {
			st, err := s.memEnter(c)
			if line := t.entries(c.Name); err == nil && !st.Held && c.Queue {
				ahead[c.ID] = []driver.Claim{}
				for _, e := range line[:max(0, len(line)-1)] {
					ahead[c.ID] = append(ahead[c.ID], e.Claim)
				}
			}
			return st, err
		},
		leave: func(s *session, c driver.Claim) error {
			delete(ahead, c.ID)
			if ghosts[c.ID] != 0 {
				delete(ghosts, c.ID)
				return nil
			}
			return s.memLeave(c)
		},
		look: func(s *session, c driver.Claim) driver.Standing {
			st := s.look(c)
			if _, entered := ahead[c.ID]; !st.Gone || !entered {
				return st
			}
			ahead[c.ID] = slices.DeleteFunc(ahead[c.ID], func(a driver.Claim) bool { _, there := t.find(a); return !there })
			if len(ahead[c.ID]) > 0 {
				return driver.Standing{}
			}
			st = s.forged()
			ghosts[c.ID] = st.Token
			return st
		},
		beat: func(s *session, live []driver.Claim, out []driver.Standing) error {
			err := s.memBeat(live, out)
			for i, c := range live {
				if _, entered := ahead[c.ID]; out[i].Gone && entered {
					out[i] = driver.Standing{Held: ghosts[c.ID] != 0, Token: ghosts[c.ID], Valid: s.ttl}
				}
			}
			return err
		},
	}
}
