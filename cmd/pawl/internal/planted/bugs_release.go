package planted

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// releaseBugs end other claims than the one that leaves.
var releaseBugs = []bug{
	{
		Bug: Bug{"release of a later grant",
			"A claim expires while its client is cut off, another is granted, and then the first client's Leave ends the hold of that one.", twoHolders},
		plant: func(t *store) hooks {
			left := map[string]bool{}
			return hooks{leave: func(s *session, c driver.Claim) error {
				err := s.memLeave(c)
				if errors.Is(err, driver.ErrGone) && !left[c.ID] {
					t.endFirst(c.Name)
				}
				left[c.ID] = true
				return err
			}}
		},
	},
	{
		Bug: Bug{"repeated release ends the next holder",
			"A Leave is carried out, its reply is lost, another claim is granted, and the repeated Leave ends that one.", twoHolders},
		plant: func(t *store) hooks {
			left := map[string]bool{}
			return hooks{leave: func(s *session, c driver.Claim) error {
				if left[c.ID] {
					t.endFirst(c.Name)
					return nil
				}
				left[c.ID] = true
				return s.memLeave(c)
			}}
		},
	},
	{
		Bug: Bug{"release ends all claims of the session",
			"When a client gives back one name, the store ends what it holds on other names too.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{leave: func(s *session, c driver.Claim) error {
				err := s.memLeave(c)
				for _, e := range t.heldBy(s) {
					t.end(e)
				}
				return err
			}}
		},
	},
	{
		Bug: Bug{"a reader's release ends the other readers",
			"The first of several readers that leaves ends all of them, and a writer is granted while they still read.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{leave: func(s *session, c driver.Claim) error {
				if e, ok := t.find(c); ok && e.Held && isReader(c) {
					for _, other := range t.held(c.Name) {
						if other.ID != c.ID {
							t.end(other)
						}
					}
				}
				return s.memLeave(c)
			}}
		},
	},
	{
		Bug: Bug{"cancelled wait ends the holder",
			"A waiter that gives up leaves by the name alone, and so ends the claim that holds it.", twoHolders},
		plant: func(t *store) hooks {
			return hooks{leave: func(s *session, c driver.Claim) error {
				if e, ok := t.find(c); ok && !e.Held {
					t.endFirst(c.Name)
				}
				return s.memLeave(c)
			}}
		},
	},
}

// endFirst ends the claim that has held a name for longest.
func (t *store) endFirst(name string) {
	if held := t.held(name); len(held) > 0 {
		t.end(held[0])
	}
}
